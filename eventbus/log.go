// Package eventbus keeps the log of facts and hands it to those who follow it.
//
// This package says what a log is; eventbus/memory and eventbus/jetstream are
// two of them, and eventbus/logtest is the suite that both must pass. The log
// holds order and history; the truth is in Kubernetes, so a log that is lost is
// filled again from the objects (eventbus/publisher) under a new epoch.
//
// The other packages: event is what a fact is and how it is written down;
// embedded is the NATS server that keeps a JetStream log; connect reaches it from
// another pod; caller tells who is calling; server, with cmd/eventbus, is the
// program of the event bus pod.
package eventbus

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"

	"switchyard.dev/eventbus/event"
)

// Errors that a caller can act on; test with errors.Is.
var (
	// ErrConflict: the newest fact of the key is not the one the caller had
	// seen. Read it again and decide anew.
	ErrConflict = errors.New("a newer fact of this key is in the log")
	// ErrNoLog: there is no log (yet). Its writer begins one; a reader waits.
	ErrNoLog = errors.New("the routing log has not begun")
	// ErrEpochEnded: the log that was being followed or written is gone, and
	// another may have begun. A reader follows again from the start, a writer
	// calls Begin.
	ErrEpochEnded = errors.New("this epoch of the routing log has ended")
	// ErrFull: the log is as large as it may be. Its writer calls Restart: a new
	// epoch holds only what is true now.
	ErrFull = errors.New("the routing log is full")
	// ErrDamaged: the log holds a record that does not read as it was written.
	// Its writer calls Restart; a reader keeps what it has until then.
	ErrDamaged = errors.New("the routing log is damaged")
	// ErrRefused: this fact can never be recorded as it is (larger than the log
	// takes, or not well formed). Trying again does not help.
	ErrRefused = errors.New("the fact cannot be recorded")
)

// Reader is a log as those see it who only read.
type Reader interface {
	// Tip gives the epoch and the sequence of the last event. ErrNoLog when
	// there is no log.
	Tip(ctx context.Context) (event.Pos, error)
	// Follow gives the newest fact of each key, in log order, and then each new
	// fact as it is recorded. ErrNoLog when there is no log.
	//
	// What a follower has given is the whole present only from the Tip on that
	// is read after Follow returned: a key that was stated before a Complete and
	// again after it is given after it.
	//
	// An event of a newer kind comes as a fact that has a Key and no Data, so
	// that every place up to the Tip is reached. Pass over it.
	Follow(ctx context.Context) (Follower, error)
}

// Follower reads forward through one epoch. One goroutine at a time uses it;
// Close may come from any.
type Follower interface {
	// Next waits for at least one fact and gives all that are there, in log
	// order, at most a few thousand. ErrEpochEnded when the log began again;
	// ctx.Err() when ctx ends; any other error means: follow again.
	Next(ctx context.Context) ([]event.Recorded, error)
	// Close ends the reading. Safe to call twice.
	Close()
}

// Log is a log as its writer sees it.
//
// Each value believes in one epoch, the one that Begin or Restart gave it last,
// and writes to no other: this is the fence against writing into a log that
// began again behind the writer's back.
type Log interface {
	Reader
	// Begin starts the log when there is none, under a new epoch, and gives the
	// tip either way.
	Begin(ctx context.Context) (event.Pos, error)
	// Restart ends the present epoch, if any, and begins an empty new one.
	Restart(ctx context.Context) (event.Pos, error)
	// Append records a fact if the newest one of its key is still at sequence
	// last (0: there is none), and gives its place once it is on disk.
	// ErrConflict when it is not, ErrNoLog when there is no log or Begin was not
	// called, ErrEpochEnded when another log has begun, ErrFull, ErrRefused; any
	// other error leaves open whether it was recorded.
	Append(ctx context.Context, f event.Fact, last uint64) (event.Pos, error)
	// Newest gives the newest fact of a key, tombstones included; false when
	// the key has none. When the newest event is of a kind that this version
	// does not know, the fact has no Data and only Pos counts.
	Newest(ctx context.Context, key event.Key) (event.Recorded, bool, error)
}

// MaxEvent is the largest event a log takes, headers included, in bytes.
const MaxEvent = 64 << 10

// History is how many events of one key a log keeps by default.
const History = 64

// NewEpoch makes a name for a log that begins: 16 random letters and digits
// (80 bits), so that no two logs ever have the same.
func NewEpoch() string { return strings.ToLower(rand.Text()[:16]) }
