// Package history gives the routing table as it was at any place or moment that
// the log still holds, and what happened to make it so.
//
// Run reads the log from its floor, beside whoever serves the present, and
// remembers little of it: when each event was recorded, a bounded number of
// checkpoints (tables, which share what they have in common), which Services
// lead to which baseline. At gives a version: it takes the nearest checkpoint at
// or below the place, reads the rest of the log up to the place, and folds it
// (fold). So a version is made of the log alone, and whoever has the log can
// make the same one, byte for byte.
//
// How far back it goes is for the log's writer to bound: it records a Floor,
// states everything again, and forgets what was before (eventbus). The oldest
// version is that of the first Complete from which a table folded from the floor
// is whole. A version below it is Gone, even where a checkpoint of it is still
// in memory: replicas that began at different times give the same answers. A
// position of another epoch is gone too.
//
// Moments are those at which the log recorded: the version of a moment is that
// of the newest event recorded until then.
//
// Nothing here stands between the log and those who serve the present: they go
// on while the log cannot be read, and while versions are being rebuilt, of which
// there are never more than a few at a time.
package history

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/projection"
	"switchyard.dev/eventbus/wake"
	"switchyard.dev/routeserver/history/fold"
	"switchyard.dev/routeserver/table"
)

// History is the past of a log. It is safe for concurrent use.
type History struct {
	cfg      Config
	rebuilds *semaphore.Weighted
	// folding is the newest Fold; it belongs to Run.
	folding fold.Fold

	mu   sync.RWMutex
	past *past
	tail tail
	// moved is sent whenever past has taken more.
	moved  wake.Signal
	recent []table.Table
}

// New returns a History, which remembers nothing before Run.
func New(cfg Config) (*History, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	h := &History{cfg: cfg, rebuilds: semaphore.NewWeighted(int64(cfg.Rebuilds))}
	h.begin("")
	return h, nil
}

// Run reads the log until ctx ends, whatever happens to it, and returns nil
// then. Call it once.
func (h *History) Run(ctx context.Context) error {
	return projection.Projection{
		Read: h.read, Forget: func() { h.begin("") }, Retry: h.cfg.Retry,
		Away: func(err error, retryIn time.Duration) {
			if !errors.Is(err, eventbus.ErrNoLog) {
				h.cfg.Logger.Warn("the past of the routing log cannot be read on; it is read again", "error", err, "retryIn", retryIn.String())
			}
		},
	}.Run(ctx)
}

// begin forgets everything.
func (h *History) begin(epoch string) {
	h.folding = fold.Fold{}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.past = newPast(epoch, bounds{checkpoints: h.cfg.Checkpoints, rules: h.cfg.CheckpointRules, every: h.cfg.Every})
	h.recent = nil
	h.moved.Send()
}

// read reads the log on from where it was left, until that fails, and reports
// whether it got anything.
func (h *History) read(ctx context.Context) (progress bool, err error) {
	cursor, err := h.cfg.Log.Read(ctx, h.folding.Mark().Pos)
	if err != nil {
		return false, err
	}
	defer cursor.Close()
	for {
		events, err := cursor.Next(ctx)
		if err != nil {
			return progress, err
		}
		if err := h.take(ctx, events); err != nil {
			return progress, err
		}
		progress = true
	}
}

// step is the most events that are folded in one go: between two of them there
// may be a checkpoint.
const step = 256

// take folds events in, outside of the lock, and remembers them.
func (h *History) take(ctx context.Context, events []event.Stored) error {
	if h.folding.Mark() == (event.Mark{}) && len(events) > 0 {
		h.begin(events[0].Pos.Epoch)
	}
	h.mu.Lock()
	h.tail.add(events)
	h.mu.Unlock()
	raised := false
	for chunk := range slices.Chunk(events, step) {
		opened, err := h.folding.Read(chunk...)
		if err != nil {
			return fmt.Errorf("%w: %w", eventbus.ErrDamaged, err)
		}
		for part := range untilComplete(opened) {
			h.folding = h.folding.Apply(part...)
			h.mu.Lock()
			h.past.take(part, h.folding)
			h.moved.Send()
			h.mu.Unlock()
		}
		raised = raised || mentionsFloor(opened)
	}
	if raised {
		// The writer forgets once its Complete is recorded; what is kept is asked
		// for again with each question, so that being early here does no harm.
		_, err := h.kept(ctx)
		return err
	}
	return nil
}

// kept asks what the log keeps, and forgets what it has forgotten.
func (h *History) kept(ctx context.Context) (eventbus.Kept, error) {
	kept, err := h.cfg.Log.Kept(ctx)
	if err != nil {
		return eventbus.Kept{}, fmt.Errorf("ask what the routing log keeps: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.past.epoch == kept.Floor.Epoch {
		h.past.forget(kept.Floor.Seq)
	}
	return kept, nil
}
