package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"switchyard.dev/eventbus/jetstream"
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

// The records of JetStream's block files, as far as they matter here: length,
// sequence, time, length of the subject; the highest bits are marks.
const (
	recordHead = 4 + 8 + 8 + 2
	lengthMark = 1 << 31
	placeMarks = 1<<63 | 1<<62
	// leap is more than any two records that follow each other are apart.
	leap = 1 << 24
)

// leaps returns an error when sequences in the block files of the store leap where none can: when one
// high bit of a sequence has flipped. The server takes the leap for that many
// deleted events and notes down each of them, which takes it all the memory there
// is. This is the only damage that must not reach it; all other is found by
// reading the log through it, so what does not look like a record is left to it.
func (d Dir) leaps() error {
	names, err := filepath.Glob(filepath.Join(d.logs(), jetstream.StreamName, "msgs", "*.blk"))
	if err != nil {
		return err
	}
	number := func(name string) int {
		n, _ := strconv.Atoi(strings.TrimSuffix(filepath.Base(name), ".blk")) // 0 for other files
		return n
	}
	slices.SortFunc(names, func(a, b string) int { return number(a) - number(b) })
	var last uint64
	for _, name := range names {
		block, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return DamageError{Unreadable, err}
		}
		for len(block) >= recordHead {
			length := binary.LittleEndian.Uint32(block) &^ lengthMark
			seq := binary.LittleEndian.Uint64(block[4:]) &^ placeMarks
			if length < recordHead || int64(length) > int64(len(block)) {
				break
			}
			if last > 0 && (seq > last+leap || last > seq+leap) {
				return DamageError{Altered, fmt.Errorf("event %d is followed by event %d in %s", last, seq, filepath.Base(name))}
			}
			last, block = seq, block[length:]
		}
	}
	return nil
}

const (
	// asidePrefix begins the names of the stores that were moved aside.
	asidePrefix = "damaged-"
	// AsideKept bounds how many of them are kept.
	AsideKept = 2
)

// MoveAside moves the contents of the directory into a subdirectory that is named by the time,
// and returns that one's name.
func (d Dir) MoveAside(at time.Time) (string, error) {
	name := d.path(asidePrefix + at.UTC().Format("20060102T150405.000000000Z"))
	if err := os.Mkdir(name, 0o700); err != nil {
		return "", fmt.Errorf("make room for the damaged store: %w", err)
	}
	// The witness is moved last: if this is interrupted, it still shows that there was a log.
	for _, part := range []string{streamsDir, openingFile, witnessFile} {
		err := os.Rename(d.path(part), filepath.Join(name, part))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("move the damaged store aside: %w", err)
		}
		if err := errors.Join(syncDir(name), syncDir(string(d))); err != nil {
			return "", fmt.Errorf("move the damaged store aside: %w", err)
		}
	}
	return name, nil
}

// DropAside removes the oldest of the stores that were moved aside, down to the number
// to keep, and then on until the volume has so much room. It returns how many it removed.
func (d Dir) DropAside(keep int, room int64) (dropped int, err error) {
	old, err := filepath.Glob(d.path(asidePrefix + "*"))
	if err != nil {
		return 0, err
	}
	slices.Sort(old) // by their times
	for dropped < len(old) {
		v, err := d.Volume()
		if err != nil {
			return dropped, err
		}
		if len(old)-dropped <= keep && v.Free >= room {
			break
		}
		if err := os.RemoveAll(old[dropped]); err != nil {
			return dropped, fmt.Errorf("remove an old damaged store: %w", err)
		}
		dropped++
	}
	return dropped, nil
}
