package script

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Begin records at a path that a script begins, by a file with a note and a lock that ends with this process. The
// record is on disk when it returns. The error is fs.ErrExist when one has begun there before. After any other error there is
// no record, or the error states that it cannot be deleted.
func Begin(path, note string) (*os.File, error) {
	beside := fmt.Sprintf("%s.%d", path, os.Getpid())
	if err := os.Remove(beside); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a process with this number that was killed
		return nil, fmt.Errorf("delete a file: %v", err) //nolint:errorlint // One that is a folder with files is fs.ErrExist.
	}
	f, err := os.OpenFile(beside, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // Other users read it.
	if err != nil {
		return nil, err
	}
	_, err = f.WriteString(note)
	if err := errors.Join(err, f.Chmod(0o644), syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	// It gets its name after it is locked, and only if the name is free.
	if err = os.Link(beside, path); err != nil {
		return nil, errors.Join(err, os.Remove(beside), f.Close())
	}
	if err = keep(f, path); err != nil {
		if left := os.Remove(path); left != nil {
			err = fmt.Errorf("%w; the record that it has begun cannot be deleted: %w", err, left)
		}
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// keep removes the first name of a record, and writes the record to disk.
func keep(f *os.File, path string) error {
	if err := os.Remove(f.Name()); err != nil {
		return err
	}
	// File and folder are written to disk at the same time. After a power cut between the two the note can be missing: the
	// record then states that the script has begun.
	folder := make(chan error, 1)
	go func() { folder <- syncFolder(filepath.Dir(path)) }()
	return errors.Join(f.Sync(), <-folder)
}

// syncFolder writes the names of a folder to disk.
func syncFolder(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Locked reports whether the process that has begun the script still runs.
func Locked(begun *os.File) (bool, error) {
	err := syscall.Flock(int(begun.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}

// Put writes a file atomically, readable for every user in the pod.
func Put(path string, content []byte, mode fs.FileMode) error {
	beside := path + ".new"
	if err := os.WriteFile(beside, content, mode); err != nil { //nolint:gosec // Containers have users of their own.
		return err
	}
	if err := os.Chmod(beside, mode); err != nil { // regardless of the umask
		return err
	}
	return os.Rename(beside, path)
}
