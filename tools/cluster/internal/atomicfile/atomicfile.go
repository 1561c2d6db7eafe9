// Package atomicfile replaces files atomically.
//
// If the program is killed while it writes, or the disk is full, the file has the old content or
// none, never a part of the new. Nothing is synced to the disk: a node is created again after a
// restart of the machine.
package atomicfile

import (
	"errors"
	"os"
	"path/filepath"
)

// Write replaces the content of the file at path, which it creates if it is not
// there. The new content is written beside it, to a hidden file, and renamed.
func Write(path string, content []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the error that is returned counts
	}
	return err
}
