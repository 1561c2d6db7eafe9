package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// The opening file exists while the store is being opened, and contains how many openings in a
// row have not ended. Reading a damaged store can make the NATS server panic in a goroutine of
// its own, which ends the process: without the file the process would do so again at each
// start.
const (
	openingFile = "opening"
	// OpeningsTried is how often an opening may not end.
	OpeningsTried = 2
)

// Openings returns how many openings in a row have not ended.
func (d Dir) Openings() (int, error) {
	text, err := os.ReadFile(d.path(openingFile))
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

// BeginOpening notes on disk that this is an opening, the n-th in a row.
func (d Dir) BeginOpening(n int) error {
	if err := writeSynced(d.path(openingFile), []byte(strconv.Itoa(n)+"\n")); err != nil {
		return fmt.Errorf("note that the store is being opened: %w", err)
	}
	return nil
}

// EndOpening notes that the opening has ended, whichever way.
func (d Dir) EndOpening() error {
	err := os.Remove(d.path(openingFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = syncDir(string(d))
	}
	if err != nil {
		return fmt.Errorf("note that the store has been opened: %w", err)
	}
	return nil
}
