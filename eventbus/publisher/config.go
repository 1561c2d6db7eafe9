// Package publisher is the writer's side of the routing log, for the controllers
// of the elected leader.
//
// A controller states what is true of an object with Put, as often as it likes:
// what the log says already is not written again. Put compares with the newest
// fact of the key, which the publisher knows from following the log itself, so
// the stating costs no read and a former leader that is still running cannot
// overwrite what it has not seen: Put gives up then (eventbus.ErrConflict), rather
// than replace what is newer. When somebody else's fact turns up, every object is
// looked at again.
//
// # Whole
//
// Run keeps the log whole. When it begins anew (a lost, altered or rewound store,
// the first start) or this process has just become the leader, it asks the
// controllers to look at every object, waits until each one is stated or settled,
// withdraws what is in the log and has no object any more, and only then appends
// Complete: readers keep their old table until they see it. An object whose
// controller fails for good is waited for only for so long (Config.Patience);
// what the log says of it stays.
//
// # The same log
//
// What the log has reached is kept outside of it (Witness, in an EpochStore), with
// the checksum of that place. A leader that starts holds the log against it, and
// one that is not the same, or has gone back behind it, is ended loudly and begun
// anew. Only the epoch that was found wrong is ended, by its name: what another
// leader has begun meanwhile lives.
//
// # Bounded
//
// The log keeps the history that Config.Bounds promise and not much more. Every so
// often a Floor is stated, then every fact that counts once more, as it is and
// side by side with what is stated anew, then a Complete that names the floor.
// What lies before a floor may be forgotten from then on, and is, as soon as
// nothing before it is promised any more. Each step leaves a log that is right
// as it is, so a leader that dies half-way leaves nothing to repair; the next one
// goes on (Plan). A log that is full forgets first; only when that is not possible
// does a new epoch begin.
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

// ErrAway: the log cannot be written at the moment. Try again later; when it is back,
// Refill is called as well.
var ErrAway = errors.New("the routing log is away")

// Config says what a publisher works with.
type Config struct {
	// Log is the log to write.
	Log eventbus.Log
	// Objects returns the keys of all objects that a fact is due for, from a cache
	// that has synced. It is called often while the log is being filled.
	Objects func(ctx context.Context) ([]event.Key, error)
	// There reports, with an uncached read, whether the object of a key exists. It is asked
	// before the fact of a key without an object is withdrawn, since a new leader's cache
	// may lag behind. nil: Objects is trusted.
	There func(ctx context.Context, key event.Key) (bool, error)
	// Refill asks the controllers to look at every object again. It returns when
	// they have been asked.
	Refill func(ctx context.Context) error
	// Epochs keeps the Witness.
	Epochs EpochStore
	// Bounds say how much history the log keeps. Events is 100,000 when it is 0.
	Bounds Bounds
	// BoundsPause is how often the bounds are looked at, beside whenever many events
	// have come or the log is full: 5 s when it is 0.
	BoundsPause time.Duration
	// Crowded is called when the log comes to fill half of its size, and when that is over
	// (see the function Crowded); nil: nobody is told.
	Crowded func(crowded bool, kept eventbus.Kept)
	// Patience is how long the publisher waits, after the last change, for a few objects
	// that have not been stated, before it calls the log whole: 30 s when it is 0. It waits
	// ten times as long for many, and for ever for all.
	Patience time.Duration
	// Clock stamps facts that have no time; time.Now when it is nil.
	Clock func() time.Time
	// Logger takes what happens to the log; slog.Default() when it is nil.
	Logger *slog.Logger
}

// Validate returns what is missing in the configuration, if anything.
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
	return c.Bounds.Validate()
}

func (c Config) withDefaults() Config {
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Bounds.Events == 0 {
		c.Bounds.Events = DefaultEvents
	}
	if c.BoundsPause == 0 {
		c.BoundsPause = 5 * time.Second
	}
	if c.Patience == 0 {
		c.Patience = 30 * time.Second
	}
	return c
}
