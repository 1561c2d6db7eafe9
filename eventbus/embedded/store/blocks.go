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

	"switchyard.dev/eventbus/jetstream"
)

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
