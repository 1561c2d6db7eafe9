package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Damage says why a store cannot be used.
type Damage string

// The kinds of damage.
const (
	// Missing: there was a log, and it is gone.
	Missing Damage = "missing"
	// Rewound: the log ends before a place that it is known to have reached.
	Rewound Damage = "rewound"
	// Altered: an event is missing, or is not what was recorded, or is not the one
	// that is known to have been there.
	Altered Damage = "altered"
	// Unreadable: the server cannot read the store, or finds something there that
	// is no log.
	Unreadable Damage = "unreadable"
	// Unfinished: the last openings of the store never ended: the program died
	// or hung in each of them.
	Unfinished Damage = "unfinished"
)

// Damages are all kinds of damage.
var Damages = []Damage{Missing, Rewound, Altered, Unreadable, Unfinished}

// damageError is the error of a store that cannot be used.
type damageError struct {
	kind Damage
	why  error
}

func (d damageError) Error() string { return d.why.Error() }
func (d damageError) Unwrap() error { return d.why }

const (
	// storeName is the directory of the streams, in the store directory.
	storeName = "jetstream"
	// asidePrefix begins the names of the stores that were moved aside.
	asidePrefix = "damaged-"
	// asideKept bounds how many of them are kept.
	asideKept = 2
)

// moveAside takes what is in the store directory out of the way, into a
// directory named by the time, and gives its name.
func moveAside(dir string, at time.Time) (string, error) {
	name := filepath.Join(dir, asidePrefix+at.UTC().Format("20060102T150405.000000000Z"))
	if err := os.Mkdir(name, 0o700); err != nil {
		return "", fmt.Errorf("make room for the damaged store: %w", err)
	}
	// The witness goes last: should this be cut short, it still tells that there
	// was a log.
	for _, part := range []string{storeName, openingFile, witnessFile} {
		err := os.Rename(filepath.Join(dir, part), filepath.Join(name, part))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("move the damaged store aside: %w", err)
		}
		if err := errors.Join(syncDir(name), syncDir(dir)); err != nil {
			return "", fmt.Errorf("move the damaged store aside: %w", err)
		}
	}
	return name, nil
}

// boundAside removes the oldest of the stores that were moved aside, down to the
// number kept, and then on until the volume has so much room.
func boundAside(dir string, room int64) error {
	old, err := asides(dir)
	if err != nil {
		return err
	}
	for i, name := range old {
		v, err := volumeOf(dir)
		if err != nil {
			return err
		}
		if len(old)-i <= asideKept && v.free >= room {
			return nil
		}
		if err := os.RemoveAll(name); err != nil {
			return fmt.Errorf("remove an old damaged store: %w", err)
		}
	}
	return nil
}

// asides returns the stores that were moved aside, oldest first.
func asides(dir string) ([]string, error) {
	names, err := filepath.Glob(filepath.Join(dir, asidePrefix+"*"))
	slices.Sort(names)
	return names, err
}

// The opening file stands in the store directory while the store is opened, and
// says how many openings in a row have not ended. Reading a damaged store can
// make the NATS server panic in a goroutine of its own, which ends the process:
// without it the process would do so again at each start.
const (
	openingFile = "opening"
	// openingsTried is how often an opening may not end.
	openingsTried = 2
)

// openings returns how many openings in a row have not ended.
func openings(dir string) (int, error) {
	text, err := os.ReadFile(filepath.Join(dir, openingFile))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read how the last opening of the store ended: %w", err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || n < 1 {
		return 1, nil // it did not end, whatever is written there
	}
	return n, nil
}

// beginOpening says on disk that this is an opening, the n-th in a row.
func beginOpening(dir string, n int) error {
	if err := writeSynced(filepath.Join(dir, openingFile), []byte(strconv.Itoa(n)+"\n")); err != nil {
		return fmt.Errorf("note that the store is being opened: %w", err)
	}
	return nil
}

// endOpening says that the opening has ended, whichever way.
func endOpening(dir string) error {
	err := os.Remove(filepath.Join(dir, openingFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = syncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("note that the store has been opened: %w", err)
	}
	return nil
}
