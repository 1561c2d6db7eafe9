// Package publisher is the writer's side of the routing log, for the controllers
// of the elected leader.
//
// A controller states what is true of an object with Put, as often as it likes:
// what the log says already is not written again. Put compares with the newest
// fact of the key, which the publisher knows from following the log itself, so
// the stating costs no read and a former leader that is still running cannot
// overwrite what it has not seen. When somebody else's fact turns up, every
// object is looked at again.
//
// Run keeps the log whole. When it begins anew (a lost or rewound store, a log
// that is full or damaged, the first start) or this process has just become the
// leader, it asks the controllers to look at every object, waits until each one
// is stated or settled, withdraws what is in the log and has no object any more,
// and only then appends Complete: readers keep their old table until they see
// it.
//
// What controllers owe: one Put or one Settle for every key that Objects names,
// in answer to Refill; facts whose data nobody changes afterwards; and a new
// attempt, later, after an error (except eventbus.ErrRefused).
package publisher

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
)

// ErrAway says that the log cannot be written at the moment. Try again later;
// when it is back, Refill is called as well.
var ErrAway = errors.New("the routing log is away")

// EpochStore keeps the position of the log outside of the log, in the API
// server: what shows that a store was rewound.
type EpochStore interface {
	// Load gives what was saved last; the zero Pos when nothing was.
	Load(ctx context.Context) (event.Pos, error)
	Save(ctx context.Context, pos event.Pos) error
}

// Config says what a publisher works with.
type Config struct {
	// Log is the log to write.
	Log eventbus.Log
	// Objects gives the keys of all objects that a fact is due for, from a cache
	// that has synced. It is called often while the log is being filled.
	Objects func(ctx context.Context) ([]event.Key, error)
	// Refill asks the controllers to look at every object again. It returns when
	// they have been asked.
	Refill func(ctx context.Context) error
	// Epochs keeps the position.
	Epochs EpochStore
	// Clock stamps facts that have no time; time.Now when it is nil.
	Clock func() time.Time
	// Logger takes what happens to the log; slog.Default() when it is nil.
	Logger *slog.Logger
}

// Validate says what is missing in the configuration, if anything.
func (c Config) Validate() error {
	switch {
	case c.Log == nil:
		return errors.New("publisher: Log is missing")
	case c.Objects == nil:
		return errors.New("publisher: Objects is missing; without it nothing tells when the log is whole")
	case c.Refill == nil:
		return errors.New("publisher: Refill is missing; without it a new log stays empty")
	case c.Epochs == nil:
		return errors.New("publisher: Epochs is missing; without it a rewound log is not noticed")
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}
