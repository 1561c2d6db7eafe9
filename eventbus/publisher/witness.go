package publisher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
)

// Witness is what is kept of the log outside of the log, in the API server: what
// shows that its store was altered or rewound, and what tells people how the log
// fares.
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
	// Load returns what was saved last; the zero Witness when nothing was.
	Load(ctx context.Context) (Witness, error)
	Save(ctx context.Context, w Witness) error
}

// Why an epoch ended, as it is counted.
const (
	EndedDamaged = "damaged" // the log was not what had been recorded
	EndedFull    = "full"    // it was full, and nothing in it could be forgotten
	EndedLost    = "lost"    // its store was gone, or somebody else began it anew
)

const (
	// savePause is how often it is looked whether the log has grown since the
	// Witness was saved.
	savePause = 750 * time.Millisecond
	// lastSave bounds what is done at the end of Run, so that the next leader finds
	// the Mark that the log really ends with.
	lastSave = 2 * time.Second
)

// begin begins the log, or begins it anew when what is there cannot be trusted
// or added to. It also returns why the log is to be filled.
func (p *Publisher) begin(ctx context.Context, last life) (event.Mark, string, error) {
	saved, err := p.config.Epochs.Load(ctx)
	if err != nil {
		return event.Mark{}, "", fmt.Errorf("read what is saved of the log: %w", err)
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

// errLost is why an epoch ended that nobody here has ended.
var errLost = errors.New("its store was lost, or it was begun anew by somebody else")

// turned returns the Witness of an epoch that has just begun in the place of another, says
// so and counts that.
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

// trusted returns a log that is what it is known to be: the one that is there, or
// a new one, and then why the other was ended.
func (p *Publisher) trusted(ctx context.Context, saved Witness, last life) (mark event.Mark, ended, err error) {
	why, epoch := last.ended, last.mark.Epoch
	if epoch == "" || !errors.Is(why, eventbus.ErrFull) && !errors.Is(why, eventbus.ErrDamaged) {
		// The epoch is asked for first: the one that Begin finds damaged may have
		// been ended by another writer a moment later, and theirs must live.
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
	p.config.Logger.Error("the routing log cannot go on and is begun anew; its history up to here is lost",
		"reason", why, "epoch", epoch, "reached", saved.Mark.Seq)
	if mark, err = p.config.Log.Restart(ctx, epoch); err != nil {
		return event.Mark{}, nil, fmt.Errorf("begin the log anew: %w", err)
	}
	return mark, why, nil
}

// known returns what is known best of the log: of two Marks of one epoch the later
// one. One without a checksum, which an older version saved, tells nothing to
// Begin.
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
	for {
		if err := sleep(ctx, savePause); err != nil {
			return err
		}
		if w := p.seen(); w.Mark != saved && p.save(ctx, w) {
			saved = w.Mark
		}
	}
}

// saveLast saves the Witness at the end of Run, when the last facts that were
// under way are recorded: then the next leader holds the log against the Mark
// that it ended with. A log that somebody else has begun meanwhile is theirs to
// save.
func (p *Publisher) saveLast(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSave)
	defer cancel()
	// Whoever states something now is waited for, unless the time is up.
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
