package publisher

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/wake"
)

const (
	// checkPause is the time between two checks whether every object is settled. (Checking after
	// each one would cost the square of their number.)
	checkPause = 20 * time.Millisecond
	// reachPause is the time between two checks whether the log can be reached.
	reachPause = 100 * time.Millisecond
	// roundPause is between two rounds, so that two writers that do not agree
	// cannot keep each other busy.
	roundPause = 500 * time.Millisecond
	// logPause is how often a round without progress logs what it waits for.
	logPause = 10 * time.Second
)

// keepWhole fills the log whenever that is due.
func (p *Publisher) keepWhole(ctx context.Context) error {
	for {
		reason, err := p.nextRound(ctx)
		if err != nil {
			return err
		}
		started := time.Now()
		if err := p.fill(ctx, reason); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			p.config.Logger.Warn("the routing log could not be filled; trying again", "reason", reason, "error", err)
			p.request(reason)
		} else {
			p.config.Logger.Info("the routing log is whole", "reason", reason,
				"tip", p.Position().Seq, "took", time.Since(started).String())
		}
		if !wake.Sleep(ctx, roundPause) {
			return ctx.Err()
		}
	}
}

// nextRound waits until a round is due and begins it.
func (p *Publisher) nextRound(ctx context.Context) (reason string, err error) {
	err = p.changed.Until(ctx, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.round.due != "" {
			reason = p.round.begin()
		}
		return reason != ""
	})
	return reason, err
}

// fill waits until every object is stated, withdraws keys without an object, and states
// Complete.
func (p *Publisher) fill(ctx context.Context, reason string) error {
	// Nothing can be stated while the log is out of reach. It comes back, or the
	// follower finds that it has ended, and then so does ctx.
	for {
		if _, err := p.config.Log.Tip(ctx); err == nil {
			break
		}
		if !wake.Sleep(ctx, reachPause) {
			return ctx.Err()
		}
	}
	if err := p.config.Refill(ctx); err != nil {
		return fmt.Errorf("ask for every object: %w", err)
	}
	stale, err := p.awaitObjects(ctx)
	if err != nil {
		return err
	}
	// In order, which has routing keys before members, as when objects go one by one.
	for _, key := range slices.Sorted(maps.Keys(stale)) {
		if p.config.There != nil {
			if there, err := p.config.There(ctx, key); err != nil {
				return fmt.Errorf("read the object of %s without the cache: %w", key, err)
			} else if there {
				continue // It is stated when the cache has it.
			}
		}
		if err := p.withdraw(ctx, key, stale[key]); err != nil {
			return err
		}
	}
	return p.complete(ctx, reason)
}

// awaitObjects waits until every object is settled, and returns the facts in the
// log that have no object.
func (p *Publisher) awaitObjects(ctx context.Context) (map[event.Key]event.Pos, error) {
	said := time.Now()
	for {
		// First read the log, then the objects: a fact of an object that is created in between
		// is not among the first, and is not taken for stale.
		p.mu.Lock()
		stated := p.mirror.stated()
		p.mu.Unlock()
		keys, err := p.config.Objects(ctx)
		if err != nil {
			return nil, fmt.Errorf("list the objects: %w", err)
		}
		p.mu.Lock()
		missing := p.round.missing(keys)
		if len(missing) == 0 {
			p.unsettled = nil
		}
		p.mu.Unlock()
		if len(missing) == 0 || p.giveUp(missing, len(keys)) {
			for _, key := range keys {
				delete(stated, key)
			}
			return stated, nil
		}
		if time.Since(said) > logPause {
			said = time.Now()
			p.config.Logger.Warn("the routing log waits for objects to be stated",
				"missing", len(missing), "of", len(keys), "first", string(missing[0]))
		}
		if !wake.Sleep(ctx, checkPause) {
			return nil, ctx.Err()
		}
	}
}

// giveUp reports whether to stop waiting for objects that are not stated: their controllers
// keep failing, and the routes of all others must not wait for them. Their facts in the log
// stay. When many are missing it waits much longer, because then the cause is not in the
// objects; and when all are, for ever: a log without any of them would remove every route.
func (p *Publisher) giveUp(missing []event.Key, of int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	patience := p.config.Patience
	if len(missing) > max(1, of/10) {
		patience *= 10
	}
	if len(missing) == of || time.Since(p.round.moved) < patience {
		return false
	}
	slices.Sort(missing)
	p.unsettled = missing
	p.config.Logger.Error("objects were not stated for too long; the log is completed without them: "+
		"check the log for errors of their controllers; their facts in the routing log stay unchanged",
		"objects", len(missing), "of", of, "first", string(missing[0]), "waited", time.Since(p.round.moved).Round(time.Millisecond).String())
	return true
}

// withdraw withdraws a key, unless its newest fact is no longer the one at pos: then the key
// has just been stated.
func (p *Publisher) withdraw(ctx context.Context, key event.Key, pos event.Pos) error {
	data, ok := event.Withdrawal(key)
	if !ok {
		return nil
	}
	round, err := p.acquire(ctx, key)
	if err != nil {
		return err
	}
	f := event.Fact{Key: key, Time: p.config.Clock(), Cause: event.Cause{Manager: "publisher"}, Data: data}
	at, err := p.append(ctx, f, pos.Seq)
	if errors.Is(err, eventbus.ErrConflict) {
		at, err = pos, nil
	} else if err == nil {
		p.config.Logger.Info("withdrew a fact without an object", "key", string(key), "seq", at.Seq)
	}
	p.release(key, at, round, err)
	return err
}

// complete states that the log is whole.
func (p *Publisher) complete(ctx context.Context, reason string) error {
	p.mu.Lock()
	whole, data := p.mirror.whole(), p.mirror.complete(reason)
	p.mu.Unlock()
	// Readers need it once in an epoch. A new leader also states it, for the history.
	if !whole || reason == reasonLeader {
		if _, err := p.Put(ctx, event.Fact{Key: event.Log, Cause: event.Cause{Manager: "publisher"}, Data: data}); err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.round.filling = false
	return nil
}
