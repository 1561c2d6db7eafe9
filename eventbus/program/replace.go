package program

import (
	"errors"
	"os"
	"path/filepath"
)

// Replace replaces a file as a whole: a process that is killed and a power cut leave the old content or the new one, and once
// it returns nil the new one. Only the process's user can read the file.
func Replace(path string, content []byte) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // fails when all went well
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close()) // a new name outlasts a power cut
}
