package publisher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/wake"
)

// Witness is the state of the log that is kept outside of it, in the API server. It shows
// whether the log's store was altered or rewound, and reports the state of the log to people.
type Witness struct {
	// Mark is a place that the log has reached, with its checksum. The checksum is
	// the zero one when an older version saved it.
	Mark event.Mark
	// Since is when the epoch began; zero when that is not known.
	Since time.Time
	// Before is the epoch before this one and Ended why it ended; both are empty
	// when there was none.
	Before, Ended string
}

// EpochStore keeps a Witness.
type EpochStore interface {
	// Load returns the last saved Witness; the zero Witness when there is none.
	Load(ctx context.Context) (Witness, error)
	Save(ctx context.Context, w Witness) error
}

// Why an epoch ended, as it is counted.
const (
	EndedDamaged = "damaged" // the log was not what had been recorded
	EndedFull    = "full"    // it was full, and nothing in it could be forgotten
	EndedLost    = "lost"    // its store was deleted, or another process began it again
)

const (
	// savePause is how often it is looked whether the log has grown since the
	// Witness was saved.
	savePause = 750 * time.Millisecond
	// lastSave bounds the work at the end of Run, so that the next leader finds the Mark that
	// the log really ends with.
	lastSave = 2 * time.Second
)

// begin begins the log, or begins it again when the existing one cannot be trusted or extended.
// It also returns why the log is to be filled.
func (p *Publisher) begin(ctx context.Context, last life) (event.Mark, string, error) {
	saved, err := p.config.Epochs.Load(ctx)
	if err != nil {
		return event.Mark{}, "", fmt.Errorf("read the saved witness of the log: %w", err)
	}
	mark, ended, err := p.trusted(ctx, saved, last)
	if err != nil {
		return event.Mark{}, "", err
	}
	now, reason := saved, reasonLeader
	now.Mark = mark
	switch {
	case mark.Epoch == saved.Mark.Epoch:
	case saved.Mark.Epoch == "" && ended == nil:
		p.config.Logger.Info("the routing log begins", "epoch", mark.Epoch)
		now, reason = Witness{Mark: mark, Since: p.config.Clock()}, reasonFirst
	default:
		now, reason = p.turned(saved.Mark, mark, ended), reasonEpoch
	}
	if reason != reasonLeader {
		p.save(ctx, now)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known = now
	return mark, reason, nil
}

// errLost is the reason for an epoch that ended without this process.
var errLost = errors.New("its store was lost, or another process began it again")

// turned returns the Witness of an epoch that has just replaced another, and logs and counts
// that.
func (p *Publisher) turned(before, now event.Mark, ended error) Witness {
	kind := EndedDamaged
	switch {
	case ended == nil:
		ended, kind = errLost, EndedLost
	case errors.Is(ended, eventbus.ErrFull):
		kind = EndedFull
	}
	p.mu.Lock()
	p.ended[kind]++
	p.mu.Unlock()
	p.config.Logger.Error("a new epoch of the routing log has begun; the history of the one before is lost",
		"epoch", now.Epoch, "before", before.Epoch, "reachedBefore", before.Seq, "reason", ended)
	return Witness{Mark: now, Since: p.config.Clock(), Before: before.Epoch, Ended: ended.Error()}
}

// trusted returns a log that agrees with its Witness: the existing one, or a new one, and then
// why the other was ended.
func (p *Publisher) trusted(ctx context.Context, saved Witness, last life) (mark event.Mark, ended, err error) {
	why, epoch := last.ended, last.mark.Epoch
	if epoch == "" || !errors.Is(why, eventbus.ErrFull) && !errors.Is(why, eventbus.ErrDamaged) {
		// The epoch is read first: the one that Begin finds damaged may have been ended by
		// another writer a moment later, and its new log must be kept.
		tip, err := p.config.Log.Tip(ctx)
		if err != nil && !errors.Is(err, eventbus.ErrNoLog) {
			return event.Mark{}, nil, err
		}
		if mark, why = p.config.Log.Begin(ctx, known(saved.Mark, last.mark)); why == nil {
			why = rewound(mark.Pos, saved.Mark.Pos)
		}
		if !errors.Is(why, eventbus.ErrDamaged) {
			return mark, nil, why
		}
		epoch = tip.Epoch
	}
	if epoch == "" {
		return event.Mark{}, nil, why // It was not there a moment ago: look again.
	}
	p.config.Logger.Error("the routing log cannot be continued and is begun again; its history up to here is lost",
		"reason", why, "epoch", epoch, "reached", saved.Mark.Seq)
	if mark, err = p.config.Log.Restart(ctx, epoch); err != nil {
		return event.Mark{}, nil, fmt.Errorf("begin the log again: %w", err)
	}
	return mark, why, nil
}

// known returns the best known Mark of the log: of two Marks of one epoch the later one. One
// without a checksum, which an older version saved, is of no use to Begin.
func known(saved, seen event.Mark) event.Mark {
	if seen.Epoch == saved.Epoch && seen.Seq > saved.Seq {
		return seen
	}
	if saved.Chain == (event.Chain{}) {
		return event.Mark{}
	}
	return saved
}

// rewound returns an error when a log ends before a place that it had reached.
func rewound(tip, saved event.Pos) error {
	if tip.Epoch == saved.Epoch && tip.Seq < saved.Seq {
		return fmt.Errorf("%w: it ends at %d and is known to have reached %d; its store was rewound", eventbus.ErrDamaged, tip.Seq, saved.Seq)
	}
	return nil
}

// seen returns the Witness of the log as it is known now.
func (p *Publisher) seen() Witness {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known
}

// keepSaved saves the Witness soon after the log has grown.
func (p *Publisher) keepSaved(ctx context.Context) error {
	saved := p.seen().Mark
	for wake.Sleep(ctx, savePause) {
		if w := p.seen(); w.Mark != saved && p.save(ctx, w) {
			saved = w.Mark
		}
	}
	return ctx.Err()
}

// saveLast saves the Witness at the end of Run, when the last facts in flight are recorded:
// then the next leader compares the log with the Mark that it ended with. A log that another
// process has begun in the meantime is saved by that one.
func (p *Publisher) saveLast(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSave)
	defer cancel()
	// Wait for facts that are being stated, within the time limit.
	_ = p.changed.Until(ctx, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.mirror.busy) == 0
	})
	w := p.seen()
	if tip, err := p.config.Log.Tip(ctx); err != nil || tip.Epoch != w.Mark.Epoch || tip.Epoch == "" {
		return
	}
	p.save(ctx, w)
}

// save saves a Witness. Failing it is no reason to stop: routes matter more than
// noticing, some day, that a store was rewound. It is tried again.
func (p *Publisher) save(ctx context.Context, w Witness) bool {
	err := p.config.Epochs.Save(ctx, w)
	if err != nil && ctx.Err() == nil {
		p.config.Logger.Warn("the place that the routing log has reached could not be saved; trying again", "error", err)
	}
	return err == nil
}
