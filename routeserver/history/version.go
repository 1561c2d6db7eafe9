package history

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/routeserver/history/fold"
	"switchyard.dev/routeserver/table"
)

// At returns the table at a position. The error is a Gone when the position is of another epoch, or
// before the oldest version; ErrNotReached; ctx's; or one of the log, after which the caller can
// retry.
func (h *History) At(ctx context.Context, pos event.Pos) (table.Table, error) {
	kept, err := h.kept(ctx)
	if err != nil {
		return table.Table{}, err
	}
	switch {
	case pos.Epoch != kept.Tip.Epoch:
		return table.Table{}, h.gone(pos, true)
	case pos.Seq > kept.Tip.Seq:
		return table.Table{}, fmt.Errorf("%w: %d; the log ends at %d", ErrNotReached, pos.Seq, kept.Tip.Seq)
	}
	if t, ok := h.remembered(pos); ok {
		return t, nil
	}
	if err := h.await(ctx, pos, kept.Tip); err != nil {
		return table.Table{}, err
	}
	h.mu.RLock()
	oldest, whole := h.past.oldest()
	start := h.past.nearest(pos.Seq)
	h.mu.RUnlock()
	if !whole || pos.Seq < oldest {
		return table.Table{}, h.gone(pos, false)
	}
	return h.rebuild(ctx, start, pos)
}

// AtTime returns the table as it was at a moment: with the newest event that had
// been recorded by then. A moment to come has the newest one. Its errors are
// those of At.
func (h *History) AtTime(ctx context.Context, at time.Time) (table.Table, error) {
	kept, err := h.kept(ctx)
	if err != nil {
		return table.Table{}, err
	}
	if err := h.await(ctx, kept.Tip, kept.Tip); err != nil {
		return table.Table{}, err
	}
	h.mu.RLock()
	seq := h.past.newestAt(at)
	oldest, whole := h.past.oldest()
	h.mu.RUnlock()
	if !whole || seq < oldest {
		return table.Table{}, h.goneAs("the table of "+at.UTC().Format(time.RFC3339Nano), false)
	}
	return h.At(ctx, event.Pos{Epoch: kept.Tip.Epoch, Seq: seq})
}

// Oldest returns the oldest version that At can return. Its errors are those of At; a Gone
// while there is none.
func (h *History) Oldest(ctx context.Context) (table.Table, error) {
	kept, err := h.kept(ctx)
	if err != nil {
		return table.Table{}, err
	}
	if err := h.await(ctx, event.Pos{Epoch: kept.Tip.Epoch}, kept.Tip); err != nil {
		return table.Table{}, err
	}
	h.mu.RLock()
	oldest, whole := h.past.oldest()
	h.mu.RUnlock()
	if !whole {
		return table.Table{}, h.goneAs("every version", false)
	}
	return h.At(ctx, event.Pos{Epoch: kept.Tip.Epoch, Seq: oldest})
}

// RecordedAt returns when the event at a place was recorded; false when that is
// not known (yet, or any more).
func (h *History) RecordedAt(pos event.Pos) (time.Time, bool) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.past.epoch != pos.Epoch {
		return time.Time{}, false
	}
	at := h.past.recordedAt(pos.Seq)
	return at, !at.IsZero()
}

// rebuild folds the log from a checkpoint up to a place.
func (h *History) rebuild(ctx context.Context, start fold.Fold, pos event.Pos) (table.Table, error) {
	if err := h.rebuilds.Acquire(ctx, 1); err != nil {
		return table.Table{}, err
	}
	defer h.rebuilds.Release(1)
	reached := start
	err := h.stretch(ctx, start.Mark().Pos, pos, func(events []event.Stored) (err error) {
		reached, err = reached.Take(events...)
		return damaged(err)
	})
	if errors.Is(err, eventbus.ErrGone) || errors.Is(err, eventbus.ErrEpochEnded) {
		return table.Table{}, h.gone(pos, errors.Is(err, eventbus.ErrEpochEnded))
	}
	if err != nil {
		return table.Table{}, fmt.Errorf("rebuild version %d: %w", pos.Seq, err)
	}
	h.Remember(reached.Table())
	return reached.Table(), nil
}

func damaged(err error) error {
	if err != nil {
		return fmt.Errorf("%w: %w", eventbus.ErrDamaged, err)
	}
	return nil
}

// stretch reads the events behind one place up to and with another.
func (h *History) stretch(ctx context.Context, behind, upTo event.Pos, each func([]event.Stored) error) error {
	if behind.Epoch == upTo.Epoch && behind.Seq >= upTo.Seq {
		return nil
	}
	cursor, err := h.cfg.Past.Read(ctx, behind)
	if err != nil {
		return err
	}
	defer cursor.Close()
	for {
		events, err := cursor.Next(ctx)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			continue
		}
		switch first := events[0].Pos; {
		case first.Epoch != upTo.Epoch:
			return eventbus.ErrEpochEnded
		case first.Seq > upTo.Seq:
			return eventbus.ErrGone
		}
		n, last := slices.BinarySearchFunc(events, upTo.Seq, func(e event.Stored, seq uint64) int {
			return int(int64(e.Pos.Seq) - int64(seq))
		})
		if last {
			n++
		}
		if err := each(events[:n]); err != nil || last {
			return err
		}
	}
}

// await waits until a position has been read, and the oldest whole version if there is one before
// the tip: only then can a deleted version be detected.
func (h *History) await(ctx context.Context, pos, tip event.Pos) error {
	if tip.Seq == 0 {
		return h.goneAs("every version", false)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, h.cfg.Patience,
		fmt.Errorf("the past of the routing log has not been read up to %d yet; ask again", pos.Seq))
	defer cancel()
	err := h.moved.Until(ctx, func() bool {
		h.mu.RLock()
		defer h.mu.RUnlock()
		_, whole := h.past.oldest()
		reached := h.past.tip()
		return h.past.epoch == pos.Epoch && reached >= pos.Seq && (whole || reached >= tip.Seq)
	})
	if err != nil {
		return context.Cause(ctx)
	}
	return nil
}

// Remember caches a version for requests that follow soon.
func (h *History) Remember(t table.Table) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t.Pos().Epoch != h.past.epoch || slices.ContainsFunc(h.recent, func(r table.Table) bool { return r.Pos() == t.Pos() }) {
		return
	}
	h.recent = append(h.recent, t)
	if len(h.recent) > h.cfg.Recent {
		h.recent = slices.Delete(h.recent, 0, 1)
	}
}

// remembered returns a cached version that has not expired.
func (h *History) remembered(pos event.Pos) (table.Table, bool) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if oldest, whole := h.past.oldest(); !whole || pos.Seq < oldest || pos.Epoch != h.past.epoch {
		return table.Table{}, false
	}
	i := slices.IndexFunc(h.recent, func(t table.Table) bool { return t.Pos() == pos })
	if i < 0 {
		return table.Table{}, false
	}
	return h.recent[i], true
}

func (h *History) gone(pos event.Pos, otherEpoch bool) error {
	return h.goneAs(fmt.Sprintf("version %d of epoch %s", pos.Seq, pos.Epoch), otherEpoch)
}

func (h *History) goneAs(asked string, otherEpoch bool) error {
	g := &Gone{Asked: asked, OtherEpoch: otherEpoch}
	h.mu.RLock()
	defer h.mu.RUnlock()
	if oldest, ok := h.past.oldest(); ok {
		g.Oldest = event.Pos{Epoch: h.past.epoch, Seq: oldest}
		g.Recorded = h.past.recordedAt(oldest)
	}
	return g
}
