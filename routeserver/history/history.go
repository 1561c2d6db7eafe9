// Package history provides the routing table at any position or time within the retained log, and
// the events that produced it.
//
// Run reads the log from its floor, independently of the serving path, and keeps little of it in
// memory: the time of each event, a bounded number of checkpoints (tables, which share their common
// parts), and which Services select which baseline. At returns a version: it takes the nearest
// checkpoint at or below the position, reads the rest of the log up to the position, and folds it
// (fold). So a version depends on the log alone, and any reader of the log can reproduce it, byte
// for byte.
//
// Retention is controlled by the log's writer: it records a Floor, publishes everything again, and
// deletes older events (eventbus). The oldest version is that of the first Complete from which a
// table folded from the floor is whole. For an older version, or one of another epoch, readers get a
// *Gone error, even if a checkpoint of it is still in memory: replicas that started at different
// times return the same results.
//
// Times are those at which the log recorded: the version at a time is that of the newest event
// recorded until then.
//
// The serving path does not depend on this package: it continues while the log cannot be read and
// while versions are rebuilt, of which only a few run at a time.
package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
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
		// The writer deletes older events once its Complete is recorded. The floor is read again
		// with each request, so reading it too early here does no harm.
		_, err := h.kept(ctx)
		return err
	}
	return nil
}

// kept reads the retained range of the log, and drops everything older from memory.
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

// ErrNotReached is the error for a position that the log has not reached; test with errors.Is.
var ErrNotReached = errors.New("this version has not been reached")

// Gone is the error for a version or a range that is no longer kept; it names the oldest one that
// is. It is an eventbus.ErrGone, or an eventbus.ErrEpochEnded.
type Gone struct {
	// Asked describes the requested version in readable form.
	Asked string
	// OtherEpoch: the place is of another life of the log, of which nothing is
	// kept. It makes this an ErrEpochEnded.
	OtherEpoch bool
	// Oldest is the oldest version that there is, and Recorded when it was made.
	// Zero when there is none yet.
	Oldest   event.Pos
	Recorded time.Time
}

// Error implements error.
func (g *Gone) Error() string {
	why := "is not kept"
	if g.OtherEpoch {
		why = "is of an epoch of the log that has ended"
	}
	if g.Oldest == (event.Pos{}) {
		return fmt.Sprintf("%s %s; the log holds no whole table yet", g.Asked, why)
	}
	return fmt.Sprintf("%s %s; the oldest version is %d of epoch %s, of %s",
		g.Asked, why, g.Oldest.Seq, g.Oldest.Epoch, g.Recorded.UTC().Format(time.RFC3339))
}

// Unwrap returns the error of eventbus that it is.
func (g *Gone) Unwrap() error {
	if g.OtherEpoch {
		return eventbus.ErrEpochEnded
	}
	return eventbus.ErrGone
}

// Config is what a History needs.
type Config struct {
	// Log is the log to read. Required.
	Log eventbus.Reader
	// Past is the same log, used on request: to rebuild versions, and to read ranges and single
	// keys. It can limit concurrent reads (package eventbus/readers). Default: Log.
	Past eventbus.Reader
	// Checkpoints is how many tables are kept ready, to begin rebuilding at.
	// Default 32.
	Checkpoints int
	// CheckpointRules is how many rules all of these tables may have together, so
	// that large tables are kept less often: two that lie thousands of events apart
	// share little. About 400 bytes each. Default 500,000.
	CheckpointRules int
	// Every is the least number of events between two checkpoints. Default 256.
	Every int
	// Rebuilds is how many versions are rebuilt at the same time; more wait.
	// Default 2.
	Rebuilds int
	// Recent is the number of rebuilt versions that are cached for later requests, such as the
	// pages of a table. Default 8.
	Recent int
	// Patience is the timeout for reading the log up to a requested version. Default 30 s.
	Patience time.Duration
	// Retry bounds the wait before the log is read again. Default: 100 ms and 5 s.
	Retry projection.Retry
	// Logger records failures to read the log. Default: no logging.
	Logger *slog.Logger
}

// Validate returns an error that describes the first invalid field of a Config, or nil.
func (c Config) Validate() error {
	switch {
	case c.Log == nil:
		return errors.New("history: Config.Log is missing: set the log to read")
	case c.Checkpoints < 0 || c.CheckpointRules < 0 || c.Every < 0 || c.Rebuilds < 0 || c.Recent < 0 || c.Patience < 0:
		return errors.New("history: numbers in Config must not be negative")
	}
	return c.Retry.Validate()
}

func (c Config) withDefaults() Config {
	c.Past = cmp.Or(c.Past, c.Log)
	c.Checkpoints = cmp.Or(c.Checkpoints, 32)
	c.CheckpointRules = cmp.Or(c.CheckpointRules, 500_000)
	c.Every = cmp.Or(c.Every, 256)
	c.Rebuilds = cmp.Or(c.Rebuilds, 2)
	c.Recent = cmp.Or(c.Recent, 8)
	c.Patience = cmp.Or(c.Patience, 30*time.Second)
	c.Retry = c.Retry.Or(100*time.Millisecond, 5*time.Second)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}
