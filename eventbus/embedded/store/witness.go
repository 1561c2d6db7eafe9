// Package store is the directory in which the event bus keeps the routing log, apart from the
// NATS server that reads and writes the log in it: the server trusts no store, and this package
// tests whether it can be used.
//
//	jetstream/   the streams, as the NATS server keeps them
//	witness      how far the log is known to be on disk
//	opening      how often in a row opening the store has not ended
//	damaged-…/   stores that could not be used, moved aside
//
// All that is written here is on disk once it has been written, and is either old or new
// after a power cut.
package store

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"switchyard.dev/eventbus/event"
)

// The witness is a small file next to the store. It contains the Mark of the newest event that
// the server knows to be on disk, and so shows that there was a log and how far it reached.
// JetStream itself does not report that after its files were damaged, because it begins again
// with the readable ones.
const (
	witnessFile = "witness"
	// witnessForm is its first line. A later form gets another.
	witnessForm = "switchyard witness 1"
)

// ErrNoWitness means that there is no witness file.
var ErrNoWitness = errors.New("there is no witness of the log")

// writtenWitness is the witness in written form: lines that a person can read,
// the last of which is a checksum over those before it.
func writtenWitness(m event.Mark) []byte {
	text := fmt.Sprintf("%s\nepoch %s\nsequence %d\nchain %s\n", witnessForm, m.Epoch, m.Seq, m.Chain)
	sum := sha256.Sum256([]byte(text))
	return []byte(text + "sum " + hex.EncodeToString(sum[:]) + "\n")
}

// parseWitness reads what writtenWitness wrote. An error means that it did not.
func parseWitness(text string) (event.Mark, error) {
	lines := strings.Split(text, "\n")
	if len(lines) != 6 || lines[0] != witnessForm {
		return event.Mark{}, errors.New("it does not have the form of a witness")
	}
	m := event.Mark{Pos: event.Pos{Epoch: strings.TrimPrefix(lines[1], "epoch ")}}
	var err error
	if m.Seq, err = strconv.ParseUint(strings.TrimPrefix(lines[2], "sequence "), 10, 64); err != nil {
		return event.Mark{}, fmt.Errorf("its sequence does not read: %w", err)
	}
	if m.Chain, err = event.ParseChain(strings.TrimPrefix(lines[3], "chain ")); err != nil {
		return event.Mark{}, fmt.Errorf("its chain does not read: %w", err)
	}
	// Written again it must come out the same: this checks the checksum too.
	if string(writtenWitness(m)) != text {
		return event.Mark{}, errors.New("it does not fit its checksum")
	}
	return m, nil
}

// Witness reads the witness; ErrNoWitness when there is none.
func (d Dir) Witness() (event.Mark, error) {
	text, err := os.ReadFile(d.path(witnessFile))
	if errors.Is(err, fs.ErrNotExist) {
		return event.Mark{}, ErrNoWitness
	}
	if err != nil {
		return event.Mark{}, fmt.Errorf("read the witness of the log: %w", err)
	}
	m, err := parseWitness(string(text))
	if err != nil {
		return event.Mark{}, fmt.Errorf("the witness of the log is damaged: %w", err)
	}
	return m, nil
}

// SetWitness replaces the witness. After an error the previous one is unchanged.
func (d Dir) SetWitness(m event.Mark) error {
	if err := writeSynced(d.path(witnessFile), writtenWitness(m)); err != nil {
		return fmt.Errorf("write the witness of the log: %w", err)
	}
	return nil
}

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

// Account is the account of the NATS server in which the log lives.
const Account = "FACTS"

// streamsDir is the directory of the streams, in the directory of the store.
const streamsDir = "jetstream"

// Dir is the directory of a store.
type Dir string

func (d Dir) path(name string) string { return filepath.Join(string(d), name) }

// Streams returns the directory of the streams, which the NATS server makes.
func (d Dir) Streams() string { return d.path(streamsDir) }

// logs returns the directory with a directory for each stream of the log's account.
func (d Dir) logs() string { return filepath.Join(d.Streams(), Account, "streams") }

// Make makes the directory if it is not there.
func (d Dir) Make() error {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return fmt.Errorf("event bus: make the store directory: %w", err)
	}
	return nil
}

// SyncStreams syncs the parent directories of the log's files: those of a log that has just
// begun are new.
func (d Dir) SyncStreams() error {
	return errors.Join(syncDirs(d.Streams()), syncDir(string(d)))
}

// Examine returns nil when a NATS server can open the store: a DamageError when it is already
// known to be unusable, another error when the disk fails. Later reads return the content of
// the disk, not of the kernel's cache.
func (d Dir) Examine(known event.Mark) error {
	if _, err := os.Stat(d.Streams()); errors.Is(err, fs.ErrNotExist) && known.Epoch != "" {
		return DamageError{Missing, fmt.Errorf("the log had reached event %d of epoch %s and its directory is missing", known.Seq, known.Epoch)}
	}
	if err := flushFiles(d.Streams()); OfDisk(err) {
		return err
	} else if err != nil {
		return DamageError{Unreadable, err}
	}
	return d.leaps()
}

// Empty returns nil when it is right that the NATS server finds no log: there was none, and
// no files of one are left.
func (d Dir) Empty(known event.Mark) error {
	entries, err := os.ReadDir(d.logs())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return DamageError{Unreadable, err}
	}
	for _, e := range entries {
		// A leading dot marks a stream that was being removed when the process ended.
		if !strings.HasPrefix(e.Name(), ".") {
			return DamageError{Unreadable, fmt.Errorf("the server finds no stream in %s", filepath.Join(d.logs(), e.Name()))}
		}
	}
	if known.Epoch != "" {
		return DamageError{Missing, fmt.Errorf("the log had reached event %d of epoch %s and is missing", known.Seq, known.Epoch)}
	}
	return nil
}
