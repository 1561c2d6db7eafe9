package artifacts

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

// Config is where files are kept.
type Config struct {
	// Folder is a local folder, which is created if it does not exist.
	Folder string
	// Limits bound the files of a job. Default: DefaultLimits.
	Limits Limits
}

// Open opens the place of a configuration; nil: it has none. The caller closes it.
func Open(_ context.Context, c Config) (*Kept, error) {
	if c.Folder == "" {
		return nil, nil
	}
	f, err := OpenFolder(c.Folder)
	if err != nil {
		return nil, err
	}
	if c.Limits == (Limits{}) {
		c.Limits = DefaultLimits
	}
	return &Kept{Backend: f, Limits: c.Limits}, nil
}

// Close closes the place, if it is a folder.
func (k *Kept) Close() error {
	if k == nil {
		return nil
	}
	if c, is := k.Backend.(io.Closer); is {
		return c.Close()
	}
	return nil
}
