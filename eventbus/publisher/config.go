// Package publisher is the writer's side of the routing log, for the controllers
// of the elected leader.
//
// A controller states the facts of an object with Put, as often as it likes: a fact that the
// log already has is not written again. Put compares with the newest fact of the key, which the
// publisher knows from following the log itself, so stating costs no read, and a former leader
// that is still running cannot overwrite a fact that it has not seen: Put then returns
// eventbus.ErrConflict instead of replacing the newer one. When another writer's fact appears,
// every object is reconciled again.
//
// # Whole
//
// Run keeps the log whole. When the log begins again (a lost, altered or rewound store, the
// first start) or this process has just become the leader, it asks the controllers to reconcile
// every object, waits until each one is stated or settled, withdraws facts in the log without
// an object, and only then appends Complete: readers keep their old table until they see it. An
// object with a controller that keeps failing is waited for only up to a limit
// (Config.Patience); its facts in the log stay.
//
// # The same log
//
// The state of the log is also kept outside of it (Witness, in an EpochStore), with the
// checksum of its tip. A leader that starts compares the log with it. A log that is not the
// same, or ends before it, is ended, logged as an error and begun again. Only the epoch that
// was found invalid is ended, by its name: a log that another leader has begun in the meantime
// is kept.
//
// # Bounded
//
// The log keeps the history that Config.Bounds promise and not much more. Periodically a Floor
// is stated, then every live fact once more, unchanged and concurrently with new facts, then a
// Complete that names the floor. Events before a floor can be forgotten from then on, and are,
// as soon as no bound promises them any more. Each step leaves a valid log, so a leader that
// terminates half-way leaves nothing to repair; the next one continues (Plan). A full log first
// forgets; only when that is not possible does a new epoch begin.
//
// Requirements for controllers: one Put or one Settle for every key that Objects names, in
// answer to Refill; facts that are not modified afterwards; and a new attempt, later,
// after an error (except eventbus.ErrRefused).
package publisher

import (
	"cmp"
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

// Config has the dependencies of a Publisher.
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
	// Refill asks the controllers to reconcile every object again. It returns when they have
	// been asked.
	Refill func(ctx context.Context) error
	// Epochs keeps the Witness.
	Epochs EpochStore
	// Bounds limit the history that the log keeps. Events is 100,000 when it is 0.
	Bounds Bounds
	// BoundsPause is how often the bounds are checked, in addition to whenever many events have
	// arrived or the log is full: 5 s when it is 0.
	BoundsPause time.Duration
	// Crowded is called when the log begins to fill half of its size, and when that is over
	// (see the function Crowded); nil: no call.
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

// Validate returns an error if the configuration is not complete.
func (c Config) Validate() error {
	switch {
	case c.Log == nil:
		return errors.New("publisher: Log is missing")
	case c.Objects == nil:
		return errors.New("publisher: Objects is missing; without it the publisher cannot know when the log is whole")
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
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.Bounds.Events = cmp.Or(c.Bounds.Events, DefaultEvents)
	c.BoundsPause = cmp.Or(c.BoundsPause, 5*time.Second)
	c.Patience = cmp.Or(c.Patience, 30*time.Second)
	return c
}
