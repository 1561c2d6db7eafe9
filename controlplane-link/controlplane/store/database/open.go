// Package database opens SQLite or PostgreSQL, migrates its tables, runs transactions in it, and
// notifies watchers of their changes. It knows no table.
package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"golang.org/x/sys/unix"
	"modernc.org/sqlite"

	"switchyard.dev/controlplane-link/controlplane/store/netfs"
)

// DB is an open database. Make one with Open. It is safe for concurrent use.
type DB struct {
	reads, writes *sql.DB
	changes       changes
	transactions  counters
	opened        []io.Closer // closed in the reverse order
	listening     sync.WaitGroup
	stop          func() // ends listening
}

// Connections of a process for reads and writes. SQLite has one writer.
const (
	maxFileReaders = 4
	maxReaders     = 8
	maxWriters     = 12
	busyFor        = 10 * time.Second
)

// Open opens a database, and creates or migrates its tables by the files of goose: SQLite in a file, in a folder that
// exists on a local file system, or else PostgreSQL at a URL, or its key=value form. The caller closes it. The logger
// logs lost connections to PostgreSQL.
func Open(ctx context.Context, path, url string, migrations fs.FS, logger *slog.Logger) (*DB, error) {
	d := &DB{stop: func() {}}
	var err error
	switch {
	case (path == "") == (url == ""):
		err = errors.New("the store needs either a file for SQLite or the URL of a PostgreSQL database: configure one of them")
	case path != "":
		err = d.openSQLite(ctx, path, migrations)
	default:
		err = d.openPostgreSQL(ctx, url, migrations, logger)
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Reads is for reads outside of transactions.
func (d *DB) Reads() Querier { return d.reads }

// Close closes the database. Watchers are not notified any more.
func (d *DB) Close() error {
	d.stop()
	var all []error
	for _, one := range slices.Backward(d.opened) {
		all = append(all, one.Close())
	}
	return errors.Join(all...)
}

// openSQLite opens the file of SQLite, one connection for writes and several for reads.
func (d *DB) openSQLite(ctx context.Context, path string, migrations fs.FS) error {
	folder := filepath.Dir(path)
	switch remote, err := netfs.Of(folder); {
	case err != nil:
		return err
	case remote != "":
		return fmt.Errorf("%s is on a network file system (%s), where SQLite loses data: use a local volume, or PostgreSQL", folder, remote)
	}
	if err := d.claim(path); err != nil {
		return err
	}
	var err error
	if d.writes, err = openFile(path, "_txlock=immediate"); err != nil {
		return err
	}
	d.opened = append(d.opened, d.writes)
	d.writes.SetMaxOpenConns(1)
	if err := d.damaged(ctx, path); err != nil {
		return err
	}
	if err := migrate(ctx, goose.DialectSQLite3, d.writes, migrations); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if d.reads, err = openFile(path, "_pragma=query_only(1)"); err != nil {
		return err
	}
	d.opened = append(d.opened, d.reads)
	d.reads.SetMaxOpenConns(maxFileReaders)
	return nil
}

// claim creates the file if it is missing, readable by its owner only, and locks it for this process.
func (d *DB) claim(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("open the store for writes: %w", err)
	}
	if err := f.Close(); err != nil {
		return err
	}
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("lock the store: %w", err)
	}
	d.opened = append(d.opened, lock)
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("another process uses %s (%w): stop it, or use PostgreSQL for several replicas", path, err)
	}
	return nil
}

func openFile(path, parameter string) (*sql.DB, error) {
	at, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	query := fmt.Sprintf("%s&_pragma=busy_timeout(%d)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)", parameter, busyFor.Milliseconds())
	return sql.Open("sqlite", (&url.URL{Scheme: "file", Path: at, RawQuery: query}).String())
}

// Codes of SQLite for a damaged file, and for one of another kind.
const corrupt, notADB = 11, 26

// damaged returns an error if the file is not a sound database.
func (d *DB) damaged(ctx context.Context, path string) error {
	found, err := List(ctx, d.writes, Column[string], quickCheck)
	var refused *sqlite.Error
	if errors.As(err, &refused) && (refused.Code()&0xff == corrupt || refused.Code()&0xff == notADB) {
		found, err = []string{err.Error()}, nil
	}
	if err != nil {
		return fmt.Errorf("%s cannot be read and written (%w): check its disk, and the space on it", path, err)
	}
	if text := strings.Join(found, "; "); text != "ok" {
		return fmt.Errorf("%s is damaged (%s): move it away and restore a backup", path, text)
	}
	return nil
}

// openPostgreSQL connects to PostgreSQL, and begins to receive notifications.
func (d *DB) openPostgreSQL(ctx context.Context, url string, migrations fs.FS, logger *slog.Logger) error {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("the URL of the PostgreSQL database is not valid: %w", err)
	}
	// A replica that is frozen in a transaction must not block the others.
	for name, value := range map[string]string{
		"application_name": "switchyard", "synchronous_commit": "on", "statement_timeout": "30s",
		"idle_in_transaction_session_timeout": "10s", "default_transaction_isolation": "read committed",
	} {
		config.RuntimeParams[name] = value
	}
	d.reads, d.writes = pool(config, maxReaders), pool(config, maxWriters)
	d.opened = []io.Closer{d.writes, d.reads}
	at := fmt.Sprintf("PostgreSQL database %s at %s:%d", config.Database, config.Host, config.Port)
	encoding, err := One(ctx, d.reads, Column[string], serverEncoding)
	if err != nil {
		return fmt.Errorf("%s is not reached: %w", at, err)
	}
	if encoding != "UTF8" {
		return fmt.Errorf("%s has encoding %s: create it with encoding UTF8", at, encoding)
	}
	if err := migrate(ctx, goose.DialectPostgres, d.writes, migrations); err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	listening, stop := context.WithCancel(context.WithoutCancel(ctx))
	d.stop = func() {
		stop()
		d.listening.Wait()
	}
	d.listening.Go(func() { d.changes.listen(listening, config, logger) })
	d.changes.remote = true
	return nil
}

// pool returns connections to PostgreSQL.
func pool(config *pgx.ConnConfig, n int) *sql.DB {
	db := stdlib.OpenDB(*config)
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	return db
}

// migrate creates the tables, or migrates those of an earlier release. There is no way back. Replicas that start at the
// same time wait for each other.
func migrate(ctx context.Context, dialect goose.Dialect, db *sql.DB, files fs.FS) error {
	options := []goose.ProviderOption{goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger())}
	if dialect == goose.DialectPostgres {
		locker, err := lock.NewPostgresSessionLocker()
		if err != nil {
			return err
		}
		options = append(options, goose.WithSessionLocker(locker))
	}
	m, err := goose.NewProvider(dialect, db, files, options...)
	if err != nil {
		return err
	}
	if _, err := m.Up(ctx); err != nil {
		return fmt.Errorf("migrate the tables: %w", err)
	}
	now, newest, err := m.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("read the version of the tables: %w", err)
	}
	if now > newest {
		return fmt.Errorf("the tables have version %d, and this release knows versions up to %d: install the release that has migrated them, or restore a backup from before", now, newest)
	}
	return nil
}

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
