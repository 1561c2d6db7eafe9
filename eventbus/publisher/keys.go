package publisher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
)

// One goroutine at a time states a key: the fact that it compares with stays the newest one
// until it has stated its own, unless another process writes.

const (
	// putWait is how long Put waits for a log that is away, or for another Put of
	// the key, before it asks its caller to come again: long enough for the start
	// of a leader, and short, because a controller's worker waits with it.
	putWait = 500 * time.Millisecond
	// startWait is how long it waits instead while the log is reached for the first time: no
	// fault is known then, and reporting every object as failed would cost as many writes, and
	// as many more to revert them.
	startWait = 5 * time.Second
)

// acquire waits until the log is available and has room and no other goroutine states the key,
// locks the key, and returns the number of the current round.
func (p *Publisher) acquire(ctx context.Context, key event.Key) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	patience, tired := time.After(putWait), false
	for {
		p.mu.Lock()
		if p.mirror.roomy() && p.mirror.lock(key) {
			defer p.mu.Unlock()
			return p.round.number, nil
		}
		changed, why := p.changed.Next(), p.why
		starts := p.mirror.epoch == "" && why == nil
		if !p.mirror.roomy() {
			why, p.full = eventbus.ErrFull, true
			p.outgrow()
		}
		p.mu.Unlock()
		if ctx.Err() != nil || tired && !starts {
			p.request(reasonMissed)
			why = cmp.Or(why, ctx.Err(), context.DeadlineExceeded)
			return 0, fmt.Errorf("state a fact of %q: %w: %w", key, ErrAway, why)
		}
		select {
		case <-changed:
		case <-patience:
			tired = true
		case <-ctx.Done():
		}
	}
}

// release gives the key back. A fact that was stated settles its key, and so does one that
// never can be; another is asked for again when the log is back.
func (p *Publisher) release(key event.Key, pos event.Pos, round int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.mirror.busy, key)
	switch {
	case err == nil:
		p.round.settle(key, round)
		// Another process wrote after this one, before the key was unlocked.
		if newest := p.mirror.newest[key]; newest.Pos.Epoch == pos.Epoch && newest.Pos.Seq > pos.Seq {
			p.round.request(reasonForeign)
		}
	case errors.Is(err, eventbus.ErrRefused):
		p.round.settle(key, round)
	case errors.Is(err, eventbus.ErrConflict):
		p.round.request(reasonForeign)
	case errors.Is(err, ErrAway):
		p.round.request(reasonMissed)
	}
	p.changed.Send()
}

// lockKey takes a key as acquire does, but also when there is no room for facts, and waits
// for it as long as ctx allows.
func (p *Publisher) lockKey(ctx context.Context, key event.Key) error {
	away := false
	err := p.changed.Until(ctx, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		away = p.mirror.epoch == ""
		return away || p.mirror.lock(key)
	})
	if away {
		return ErrAway
	}
	return err
}

// unlockKey unlocks a key that lockKey locked. foreign means that another process has written
// it in the meantime.
func (p *Publisher) unlockKey(key event.Key, foreign bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.mirror.busy, key)
	if foreign {
		p.round.request(reasonForeign)
	}
	p.changed.Send()
}
