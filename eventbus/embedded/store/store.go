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
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"switchyard.dev/eventbus/event"
)

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
