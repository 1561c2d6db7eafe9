// Package eventbus keeps the log of facts and hands it to those who follow it.
//
// This package says what a log is; eventbus/memory and eventbus/jetstream are
// two of them, and eventbus/logtest is the suite that both must pass. The log
// holds order and history; the truth is in Kubernetes, so a log that is lost is
// filled again from the objects (eventbus/publisher) under a new epoch.
package eventbus

import (
	"context"
	"errors"

	"switchyard.dev/eventbus/event"
)

// Errors that a caller can act on; test with errors.Is.
var (
	// ErrConflict: the newest fact of the key is not the one the caller had
	// seen. Read it again and decide anew.
	ErrConflict = errors.New("a newer fact of this key is in the log")
	// ErrNoLog: there is no log (yet). Its writer begins one; a reader waits.
	ErrNoLog = errors.New("the routing log has not begun")
	// ErrEpochEnded: the log that was being followed is gone, and another may
	// have begun. Follow again from the start.
	ErrEpochEnded = errors.New("this epoch of the routing log has ended")
)

// Reader is a log as those see it who only read.
type Reader interface {
	// Tip gives the epoch and the sequence of the last event. ErrNoLog when
	// there is no log.
	Tip(ctx context.Context) (event.Pos, error)
	// Follow gives the newest fact of each key, in log order, and then each new
	// fact as it is recorded. ErrNoLog when there is no log.
	Follow(ctx context.Context) (Follower, error)
}

// Follower reads forward through one epoch.
type Follower interface {
	// Next waits for at least one fact and gives all that are there, in log
	// order, at most a few thousand. ErrEpochEnded when the log began again;
	// ctx.Err() when ctx ends; any other error means: follow again.
	Next(ctx context.Context) ([]event.Recorded, error)
	// Close ends the reading. Safe to call twice.
	Close()
}

// Log is a log as its writer sees it.
type Log interface {
	Reader
	// Begin starts the log when there is none, under a new epoch, and gives the
	// tip either way.
	Begin(ctx context.Context) (event.Pos, error)
	// Restart ends the present epoch, if any, and begins an empty new one.
	Restart(ctx context.Context) (event.Pos, error)
	// Append records a fact if the newest one of its key is still at sequence
	// last (0: there is none), and gives its place once it is on disk.
	// ErrConflict when it is not, ErrNoLog when there is no log; any other
	// error leaves open whether it was recorded.
	Append(ctx context.Context, f event.Fact, last uint64) (event.Pos, error)
	// Newest gives the newest fact of a key, tombstones included; false when
	// the key has none.
	Newest(ctx context.Context, key event.Key) (event.Recorded, bool, error)
}
