package history

import (
	"context"
	"errors"
	"fmt"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/lists"
	"switchyard.dev/routeserver/explain"
	"switchyard.dev/routeserver/table"
)

// Between calls each with the events after one place, up to and including another, in
// order, some at a time. An error of each ends it and is returned. The error is a Gone when
// the stretch is not kept.
func (h *History) Between(ctx context.Context, behind, upTo event.Pos, each func([]event.Recorded) error) error {
	if behind.Epoch != upTo.Epoch {
		return h.gone(behind, true)
	}
	err := h.stretch(ctx, behind, upTo, func(events []event.Stored) error {
		opened := make([]event.Recorded, 0, len(events))
		for _, e := range events {
			r, err := event.Open(e)
			if err != nil && !errors.Is(err, event.ErrUnknownType) {
				return damaged(fmt.Errorf("event %d: %w", e.Pos.Seq, err))
			}
			opened = append(opened, r)
		}
		return each(opened)
	})
	if errors.Is(err, eventbus.ErrGone) || errors.Is(err, eventbus.ErrEpochEnded) {
		return h.gone(behind, errors.Is(err, eventbus.ErrEpochEnded))
	}
	return err
}

// Of returns the retained events of one key, oldest first, up to and including a position; the zero
// Pos is no limit. It returns none when the log is of another epoch than the position.
func (h *History) Of(ctx context.Context, key event.Key, upTo event.Pos) ([]event.Recorded, error) {
	all, err := h.cfg.Past.HistoryOf(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("read the history of %q: %w", key, err)
	}
	if upTo == (event.Pos{}) {
		return all, nil
	}
	return lists.Filter(all, func(e event.Recorded) bool { return e.Pos.Epoch == upTo.Epoch && e.Pos.Seq <= upTo.Seq }), nil
}

// MembersOf returns the keys of all members that have stood for a baseline, as far
// as the log is kept, sorted.
func (h *History) MembersOf(w table.Workload) []event.Key {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.past.places.membersOf(w)
}

// Concerned returns the baselines that a routing key has a rule for, or had one within the retained
// log, sorted: the baselines of all members that the key has named. It covers the log as far as it
// has been read: see Reached.
func (h *History) Concerned(routingKey string) []table.Workload {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.past.places.concerned(routingKey)
}

// Reached waits until the past is read up to a place of the log. A place of another epoch
// is a Gone; after any other error the log may have it or not.
func (h *History) Reached(ctx context.Context, pos event.Pos) error {
	kept, err := h.kept(ctx)
	if err != nil {
		return err
	}
	if pos.Epoch != kept.Tip.Epoch {
		return h.gone(pos, true)
	}
	return h.await(ctx, pos, kept.Tip)
}

// Places returns the ports of Services that a destination resolves to at a version, sorted: those
// that were observed to select a baseline with a member. An address resolves to none: find its
// Service first.
func (h *History) Places(d explain.Destination, at event.Pos) []explain.Place {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.past.epoch != at.Epoch {
		return nil
	}
	return h.past.places.of(d, at.Seq)
}

// Checkpoints returns how many tables are kept ready, and at how many events the
// farthest place lies behind the one before it.
func (h *History) Checkpoints() (n int, farthest uint64) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	last := h.past.first
	for _, f := range h.past.checkpoints {
		farthest, last = max(farthest, f.Mark().Seq-last), f.Mark().Seq
	}
	return len(h.past.checkpoints), max(farthest, h.past.tip()-last)
}
