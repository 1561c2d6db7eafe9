package database

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Backup writes a consistent copy of SQLite to a new file, while it is in use. To restore
// it, stop the control plane, replace the file and delete those with its name and -wal or -shm.
func (d *DB) Backup(ctx context.Context, path string) error {
	if d.changes.remote {
		return errors.New("the store is in PostgreSQL: create a backup with pg_dump")
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("create a backup: %w", err)
	}
	defer f.Close()
	at, err := filepath.Abs(path)
	if err == nil {
		_, err = d.writes.ExecContext(ctx, backupTo, at)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = syncFolder(filepath.Dir(at))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write a backup to %s: %w", path, err), os.Remove(path))
	}
	return nil
}

func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
