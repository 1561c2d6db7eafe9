package results

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
)

// Folder is a Backend in a local folder. Nothing outside of it is reached, whatever links it has.
type Folder struct{ root *os.Root }

// OpenFolder opens a folder, and creates it if it does not exist. The caller closes it.
func OpenFolder(name string) (*Folder, error) {
	if err := os.MkdirAll(name, 0o700); err != nil {
		return nil, fmt.Errorf("create the folder of artifacts: %w", err)
	}
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, fmt.Errorf("open the folder of artifacts: %w", err)
	}
	return &Folder{root}, nil
}

// Close closes the folder.
func (f *Folder) Close() error { return f.root.Close() }

// Put implements Backend.
func (f *Folder) Put(ctx context.Context, key string, from io.Reader) error {
	if err := f.root.MkdirAll(path.Dir(key), 0o700); err != nil {
		return err
	}
	name := key + ".new-" + rand.Text()
	to, err := f.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err = io.Copy(to, from); err == nil {
		err = to.Sync()
	}
	if err = errors.Join(err, to.Close(), ctx.Err()); err == nil {
		err = f.root.Rename(name, key)
	}
	if err != nil {
		return errors.Join(err, f.root.Remove(name))
	}
	folder, err := f.root.Open(path.Dir(key))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// Open implements Backend.
func (f *Folder) Open(_ context.Context, key string) (io.ReadSeekCloser, error) {
	file, err := f.root.Open(key)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no file: %w", key, fs.ErrNotExist)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// Delete implements Backend.
func (f *Folder) Delete(_ context.Context, folder string) error { return f.root.RemoveAll(folder) }
