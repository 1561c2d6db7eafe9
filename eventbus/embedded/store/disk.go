package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

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

// writeFile overwrites a file and syncs its content.
func writeFile(name string, content []byte) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(content, 0) // with the server's own system call, so that a probe meets the same errors
	if err == nil {
		err = unix.Fdatasync(int(f.Fd()))
	}
	return errors.Join(err, f.Close())
}

// syncDir makes entries that were created, renamed or removed in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// syncDirs syncs a directory and the directories in it, deepest first. One that is removed in
// the meantime is skipped.
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

// flushFiles writes the files in a directory to the disk and drops them from the kernel's
// cache, so that the next read returns the content of the disk. Without it an event that failed
// to sync, or was never synced because the process was killed, would still be read, and be
// taken for one that survives a power failure.
func flushFiles(dir string) error {
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
	probeFile  = "probe"
	probeFiles = 4
	// ProbeSize is how large the files of a probe are before the store is opened again:
	// together about what JetStream writes before the first event.
	ProbeSize = 256 << 10
)

// Probe returns nil when the disk takes files and keeps them: it writes a few, of
// so many bytes each, syncs and removes them. The error is the disk's.
func (d Dir) Probe(size int) error {
	var err error
	for i := range probeFiles {
		if err == nil {
			err = writeFile(d.path(fmt.Sprint(probeFile, i)), make([]byte, size))
		}
	}
	for i := range probeFiles {
		if gone := os.Remove(d.path(fmt.Sprint(probeFile, i))); !errors.Is(gone, fs.ErrNotExist) && err == nil {
			err = gone
		}
	}
	if err == nil {
		err = syncDir(string(d))
	}
	if err != nil {
		return fmt.Errorf("the disk of %s cannot be written: %w", d, err)
	}
	return nil
}

// OfDisk reports whether an error is one that the disk may get over: it is full, or
// read-only, or fails.
func OfDisk(err error) bool {
	return slices.ContainsFunc([]error{unix.ENOSPC, unix.EDQUOT, unix.EROFS, unix.EIO}, func(errno error) bool { return errors.Is(err, errno) })
}

// QuotaPercent is how much of its volume the log can take: the rest is for the file system
// itself, for the files of a batch that is being written, and for a damaged store that was
// moved aside.
const QuotaPercent = 70

// Volume is the volume that a directory is on.
type Volume struct {
	// Size and Free are in bytes.
	Size, Free int64
	ReadOnly   bool
}

// Volume returns the volume as it is now.
func (d Dir) Volume() (Volume, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(string(d), &s); err != nil {
		return Volume{}, fmt.Errorf("read the size of the volume of %s: %w", d, err)
	}
	return Volume{
		Size: int64(s.Blocks) * s.Bsize, Free: int64(s.Bavail) * s.Bsize,
		ReadOnly: s.Flags&unix.ST_RDONLY != 0,
	}, nil
}

// Quota returns how much of the requested size is allowed on a volume.
func (v Volume) Quota(asked int64) int64 { return min(asked, v.Size/100*QuotaPercent) }
