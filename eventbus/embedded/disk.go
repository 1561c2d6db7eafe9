package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// writeSynced writes a file so that after a power cut either the old content is
// there or the new one, and once it returns the new one.
func writeSynced(name string, content []byte) error {
	next := name + ".next"
	err := writeFile(next, content)
	if err == nil {
		err = os.Rename(next, name)
	}
	if err == nil {
		return syncDir(filepath.Dir(name))
	}
	_ = os.Remove(next) // it is overwritten the next time
	return err
}

// writeFile writes a file anew and syncs its content.
func writeFile(name string, content []byte) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(content, 0) // as the store is written, so that a probe sees what it would
	if err == nil {
		err = unix.Fdatasync(int(f.Fd()))
	}
	return errors.Join(err, f.Close())
}

// syncDir makes what was made, renamed or removed in a directory stay so.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// syncDirs syncs a directory and the directories in it, deepest first. One that
// is removed meanwhile needs no syncing.
func syncDirs(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.IsDir() && err == nil {
			err = syncDirs(filepath.Join(dir, e.Name()))
		}
	}
	if err == nil {
		err = syncDir(dir)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// settleFiles brings the files in a directory to the disk and drops them from the
// kernel's cache, so that what is read of them next is what the disk has. Without
// it an event whose sync has failed, or never came because the process was killed,
// would still be read, and be taken for one that a power cut cannot take away.
func settleFiles(dir string) error {
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		if err = unix.Fdatasync(int(f.Fd())); err == nil {
			err = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
		}
		return errors.Join(err, f.Close())
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("bring the store to the disk before it is read: %w", err)
	}
	return nil
}

const (
	probeFile = "probe"
	// probeFiles and probeSize are what must be writable before the store is
	// opened again: about what JetStream writes before the first event.
	probeFiles = 4
	probeSize  = 256 << 10
)

// probe returns nil when the disk takes files and keeps them: it writes a few, of
// so many bytes each, syncs and removes them. The error is the disk's.
func probe(dir string, size int) error {
	var err error
	for i := range probeFiles {
		if err == nil {
			err = writeFile(filepath.Join(dir, fmt.Sprint(probeFile, i)), make([]byte, size))
		}
	}
	for i := range probeFiles {
		if gone := os.Remove(filepath.Join(dir, fmt.Sprint(probeFile, i))); !errors.Is(gone, fs.ErrNotExist) && err == nil {
			err = gone
		}
	}
	if err == nil {
		err = syncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("the disk of %s cannot be written: %w", dir, err)
	}
	return nil
}

// ofDisk reports whether an error is one that the disk may get over: it is full, or
// read-only, or fails.
func ofDisk(err error) bool {
	for _, errno := range []error{unix.ENOSPC, unix.EDQUOT, unix.EROFS, unix.EIO} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// quotaPercent is how much of its volume the log may take: what is left is for
// the file system itself, for the files of a batch that is being written, and
// for a damaged store that was moved aside.
const quotaPercent = 70

// volume is the volume that a directory is on, in bytes.
type volume struct {
	size, free int64
	readOnly   bool
}

func volumeOf(dir string) (volume, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return volume{}, fmt.Errorf("look at the volume of %s: %w", dir, err)
	}
	return volume{
		size: int64(s.Blocks) * s.Bsize, free: int64(s.Bavail) * s.Bsize,
		readOnly: s.Flags&unix.ST_RDONLY != 0,
	}, nil
}

// quota bounds what may be kept on a volume.
func (v volume) quota(asked int64) int64 {
	if most := v.size / 100 * quotaPercent; asked > most {
		return most
	}
	return asked
}
