package publisher

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
)

const (
	// restating is how many facts are stated again side by side, which the log
	// then puts on disk together.
	restating = 64
	// mostSteps bounds the actions of one check of the bounds.
	mostSteps = 16
)

// keepBounds keeps the log within its bounds, until it is full and nothing can be
// done about it.
func (p *Publisher) keepBounds(ctx context.Context) error {
	for {
		select {
		case <-p.outgrown:
		case <-time.After(p.config.BoundsPause):
		case <-ctx.Done():
			return ctx.Err()
		}
		err := p.bound(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, eventbus.ErrFull), errors.Is(err, eventbus.ErrEpochEnded),
			errors.Is(err, eventbus.ErrNoLog), errors.Is(err, eventbus.ErrDamaged):
			return err
		case err != nil:
			p.config.Logger.Warn("the history of the routing log could not be bounded; trying again", "error", err)
		}
	}
}

// bound takes one step after the other until none is due.
func (p *Publisher) bound(ctx context.Context) error {
	for range mostSteps {
		h, ok, err := p.history(ctx)
		if err != nil || !ok {
			return err
		}
		now := p.config.Clock()
		p.aged = Aged(h, p.config.Bounds, p.aged, now)
		h.Aged = p.aged
		step := Plan(h, p.config.Bounds, now)
		switch {
		case step.Forget > 0:
			err = p.forget(ctx, h, step)
		case step.Resume > 0:
			err = p.restate(ctx, step.Resume)
		case step.Raise:
			err = p.raise(ctx, step.Reason)
		case h.Full:
			return fmt.Errorf("%w, with nothing in it that could be forgotten; give it more room", eventbus.ErrFull)
		default:
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// history returns the state that matters for the bounds; false while the log is not whole,
// because then the live facts are not all known.
func (p *Publisher) history(ctx context.Context) (History, bool, error) {
	kept, err := p.config.Log.Kept(ctx)
	if err != nil {
		return History{}, false, err
	}
	p.weigh(kept)
	p.mu.Lock()
	defer p.mu.Unlock()
	m := &p.mirror
	if m.epoch != kept.Tip.Epoch {
		return History{}, false, nil
	}
	h := History{Kept: kept, Whole: m.floor(), Since: p.known.Since, Full: p.full}
	m.checkAt = m.last + h.checkAfter(p.config.Bounds)
	switch {
	case m.whole():
	case h.Full:
		return History{}, false, fmt.Errorf("%w before all live facts are in it; give it more room", eventbus.ErrFull)
	default:
		return History{}, false, nil
	}
	m.reach = m.last + min(h.room(), math.MaxUint64-m.last)
	p.changed.Send()
	h.Live, h.Foreign = m.live()
	for _, f := range m.floors {
		if f.Pos.Seq >= kept.Floor.Seq {
			h.Floors = append(h.Floors, Floor{f.Pos.Seq, f.At})
		}
	}
	return h, true, nil
}

// forget raises the floor of the log.
func (p *Publisher) forget(ctx context.Context, h History, step Step) error {
	if err := p.config.Log.Forget(ctx, event.Pos{Epoch: h.Kept.Tip.Epoch, Seq: step.Forget}); err != nil {
		return fmt.Errorf("forget what lies before event %d: %w", step.Forget, err)
	}
	p.mu.Lock()
	p.mirror.forget(step.Forget)
	p.full, p.mirror.reach = false, 0 // The next look finds how much room there is.
	p.changed.Send()
	p.mu.Unlock()
	left := h.Kept.Tip.Seq + 1 - step.Forget
	p.config.Logger.Info("forgot the oldest events of the routing log", "reason", step.Reason,
		"events", step.Forget-h.Kept.Floor.Seq, "left", left, "floor", step.Forget)
	if step.Reason == floorSize && left < p.config.Bounds.Events {
		p.config.Logger.Warn("the routing log has no room for the configured history; give it more room, or configure less history",
			"kept", left, "asked", p.config.Bounds.Events, "bytes", h.Kept.Bytes, "maxBytes", h.Kept.MaxBytes)
	}
	return nil
}

// raise states a new floor, and what counts behind it.
func (p *Publisher) raise(ctx context.Context, reason string) error {
	at, err := p.stateOfLog(ctx, event.LogFloor, func(*mirror) proto.Message { return &factv1.Floor{Reason: reason} })
	if err != nil {
		return fmt.Errorf("state a floor: %w", err)
	}
	p.config.Logger.Info("stating all live facts again, so that old events can be forgotten", "reason", reason, "floor", at.Seq)
	return p.restate(ctx, at.Seq)
}

// stateOfLog states a fact about the log itself, for which there is always room. After a
// conflict with another writer the next check decides again.
func (p *Publisher) stateOfLog(ctx context.Context, key event.Key, data func(*mirror) proto.Message) (event.Pos, error) {
	if err := p.lockKey(ctx, key); err != nil {
		return event.Pos{}, err
	}
	defer p.unlockKey(key, false)
	p.mu.Lock()
	last := p.mirror.newest[key].Pos.Seq
	f := event.Fact{Key: key, Time: p.config.Clock(), Cause: event.Cause{Manager: "publisher"}, Data: data(&p.mirror)}
	p.mu.Unlock()
	return p.append(ctx, f, last)
}

// restate states again every fact that counts and lies before a floor, and then
// that the log is whole from there on.
func (p *Publisher) restate(ctx context.Context, floor uint64) error {
	// What others have written before the floor must be known first.
	if err := p.awaitFollowed(ctx, floor); err != nil {
		return err
	}
	for {
		before := p.before(floor)
		if len(before) == 0 {
			break
		}
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(restating)
		for _, key := range before {
			group.Go(func() error { return p.stateAgain(ctx, key, floor) })
		}
		if err := group.Wait(); err != nil {
			return fmt.Errorf("state again what lies before floor %d: %w", floor, err)
		}
	}
	_, err := p.stateOfLog(ctx, event.Log, func(m *mirror) proto.Message {
		c := m.complete(reasonFloor)
		c.Floor = floor
		return c
	})
	if err != nil {
		return fmt.Errorf("state that the log is whole from floor %d on: %w", floor, err)
	}
	return nil
}

// before returns the keys with a live newest fact before a place, oldest first.
func (p *Publisher) before(floor uint64) []event.Key {
	p.mu.Lock()
	defer p.mu.Unlock()
	stated := p.mirror.stated()
	var keys []event.Key
	for key, pos := range stated {
		if pos.Seq < floor {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b event.Key) int { return int(stated[a].Seq) - int(stated[b].Seq) })
	return keys
}

// stateAgain states the newest fact of a key once more, unchanged: with its cause and time. A
// new fact of the key in the meantime serves as well.
func (p *Publisher) stateAgain(ctx context.Context, key event.Key, floor uint64) error {
	if err := p.lockKey(ctx, key); err != nil {
		return err
	}
	foreign := false
	defer func() { p.unlockKey(key, foreign) }()
	p.mu.Lock()
	newest, ok := p.mirror.newest[key]
	p.mu.Unlock()
	if !ok || newest.Pos.Seq >= floor || newest.Fact.Tombstone() {
		return nil
	}
	at, err := p.append(ctx, newest.Fact, newest.Pos.Seq)
	if errors.Is(err, eventbus.ErrConflict) {
		foreign = true
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	foreign = err == nil && p.mirror.newest[key].Pos.Seq > at.Seq
	return err
}
