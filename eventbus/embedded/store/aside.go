package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

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
