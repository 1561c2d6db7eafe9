package publisher

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/wake"
)

// putAttempts bounds how often one Put compares again because the fact that it compared with
// has been forgotten.
const putAttempts = 3

// Publisher states facts. Make one with New, and run it with Run; the other
// methods may be called from any goroutine at any time.
type Publisher struct {
	config Config

	mu     sync.Mutex
	mirror mirror
	round  round
	// why is the reason why the log is unavailable, nil when it is available or not tried yet.
	why error
	// interrupt ends the present life of Run; nil when there is none.
	interrupt context.CancelCauseFunc
	// known is the Witness as it should be saved; ended counts epochs that ended,
	// by why.
	known Witness
	ended map[string]uint64
	// full is true from when the log refuses a fact for want of room to when
	// something is forgotten.
	full bool
	// kept is how much the log took at the last look, crowded whether that is too much.
	kept    eventbus.Kept
	crowded bool
	// aged is the floor that the last check of the bounds found too old; only keepBounds uses
	// it.
	aged Floor
	// unsettled are the keys that the last round did not wait for any longer.
	unsettled []event.Key
	// outgrown triggers a check of the bounds.
	outgrown chan struct{}
	// changed wakes those who wait for a change of anything above.
	changed wake.Signal
}

// New returns a publisher that does nothing until Run.
func New(c Config) (*Publisher, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Publisher{config: c.withDefaults(), ended: map[string]uint64{}, outgrown: make(chan struct{}, 1)}, nil
}

// Put states a fact and returns its place in the log, which is an older one when the log
// already has the fact. It is on disk when Put returns. ErrAway means try again later,
// eventbus.ErrConflict reconcile the object again, eventbus.ErrRefused that this fact can never
// be recorded.
func (p *Publisher) Put(ctx context.Context, f event.Fact) (event.Pos, error) {
	if f.Time.IsZero() {
		f.Time = p.config.Clock()
	}
	round, err := p.acquire(ctx, f.Key)
	if err != nil {
		return event.Pos{}, err
	}
	pos, err := p.state(ctx, f)
	p.release(f.Key, pos, round, err)
	if err != nil {
		return event.Pos{}, fmt.Errorf("state a fact of %q: %w", f.Key, err)
	}
	return pos, nil
}

// Settle records that the object of the key was reconciled and has no fact to state, or cannot
// be stated for now: it must not hold back the others.
func (p *Publisher) Settle(key event.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.round.settle(key, p.round.number)
}

// state appends f, unless the log has it already. If another process has stated the key in the
// meantime, f was decided without knowing that and may come from a former leader: it must not
// replace the newer fact.
func (p *Publisher) state(ctx context.Context, f event.Fact) (event.Pos, error) {
	pos, last, said, err := p.recorded(f)
	for range putAttempts {
		if said || err != nil {
			return pos, err
		}
		pos, err = p.append(ctx, f, last)
		if !errors.Is(err, eventbus.ErrConflict) {
			return pos, err
		}
		compared, conflict := last, err
		pos, last, said, err = p.recorded(f)
		if err == nil && !said && last > compared {
			return event.Pos{}, conflict
		}
	}
	return event.Pos{}, fmt.Errorf("%w: the newest fact of the key changed in each of %d attempts", ErrAway, putAttempts)
}

// recorded reports whether the log has f already, and returns the place of the newest fact of its
// key. ErrAway when the log became unavailable after the key was locked: then its contents are
// unknown.
func (p *Publisher) recorded(f event.Fact) (pos event.Pos, last uint64, said bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mirror.epoch == "" {
		return event.Pos{}, 0, false, ErrAway
	}
	newest, ok := p.mirror.newest[f.Key]
	if !ok {
		// A key that is not in the log need not be withdrawn.
		return event.Pos{Epoch: p.mirror.epoch}, 0, f.Tombstone(), nil
	}
	same := event.Same(newest.Fact, f) || f.Tombstone() && newest.Fact.Tombstone()
	return newest.Pos, newest.Pos.Seq, same, nil
}

// append appends to the log if the newest fact of the key is still at last, and returns what
// an error means. After a conflict the newest fact is known.
func (p *Publisher) append(ctx context.Context, f event.Fact, last uint64) (event.Pos, error) {
	mark, err := p.config.Log.Append(ctx, f, last)
	switch {
	case err == nil:
		p.mu.Lock()
		defer p.mu.Unlock()
		p.learn(event.Recorded{Pos: mark.Pos, Fact: f, At: p.config.Clock(), Chain: mark.Chain})
		return mark.Pos, nil
	case errors.Is(err, eventbus.ErrConflict):
		if failed := p.reread(ctx, f.Key); failed != nil {
			err = failed
		}
		return event.Pos{}, err
	case errors.Is(err, eventbus.ErrRefused):
		return event.Pos{}, err
	case errors.Is(err, eventbus.ErrFull):
		p.mu.Lock()
		p.full = true
		p.outgrow()
		p.mu.Unlock()
	case errors.Is(err, eventbus.ErrEpochEnded), errors.Is(err, eventbus.ErrNoLog),
		errors.Is(err, eventbus.ErrDamaged), errors.Is(err, eventbus.ErrGone):
		p.end(err)
	}
	return event.Pos{}, fmt.Errorf("%w: %w", ErrAway, err)
}

// reread takes the newest fact of a key from the log, after a conflict.
func (p *Publisher) reread(ctx context.Context, key event.Key) error {
	r, ok, err := p.config.Log.Newest(ctx, key)
	switch {
	case errors.Is(err, eventbus.ErrNoLog), errors.Is(err, eventbus.ErrDamaged):
		p.end(err)
		fallthrough
	case err != nil:
		return fmt.Errorf("%w: %w", ErrAway, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !ok {
		// The log has forgotten it, or began again under the writer: the mirror is of
		// another epoch.
		delete(p.mirror.newest, key)
		return nil
	}
	p.learn(r)
	return nil
}

// end ends the present life of Run, which begins another.
func (p *Publisher) end(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.interrupt != nil {
		p.interrupt(why)
	}
}
