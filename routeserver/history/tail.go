package history

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
)

// The bounds of the tail, and of one piece of it.
const (
	tailEvents, tailBytes = 4096, 4 << 20
	pieceEvents           = 256
	pieceBytes            = 1 << 20
)

// tail caches the newest events as they were written, so that any number of followers at the end of
// the log put no load on the bus. It has no lock; the lock of History guards it.
type tail struct {
	events []event.Stored
	bytes  int
}

// add takes events on. Those that do not follow the ones before begin a new tail.
func (t *tail) add(events []event.Stored) {
	for _, e := range events {
		if n := len(t.events); n > 0 && (t.events[n-1].Pos.Epoch != e.Pos.Epoch || t.events[n-1].Pos.Seq+1 != e.Pos.Seq) {
			t.events, t.bytes = nil, 0
		}
		t.events = append(t.events, e)
		t.bytes += sizeOf(e)
	}
	if len(t.events) <= tailEvents && t.bytes <= tailBytes {
		return
	}
	// Half of it goes, so that what stays is copied rarely.
	drop := 0
	for drop < len(t.events) && (len(t.events)-drop > tailEvents/2 || t.bytes > tailBytes/2) {
		t.bytes -= sizeOf(t.events[drop])
		drop++
	}
	t.events = slices.Clone(t.events[drop:])
}

// behind returns cached events after a position, nil when they are not cached. At the end of the
// tail there are none, and atEnd is true.
func (t *tail) behind(pos event.Pos) (piece []event.Stored, atEnd bool) {
	n := len(t.events)
	if n == 0 || t.events[0].Pos.Epoch != pos.Epoch {
		return nil, false
	}
	first, last := t.events[0].Pos.Seq, t.events[n-1].Pos.Seq
	if pos.Seq+1 < first || pos.Seq >= last {
		return nil, pos.Seq == last
	}
	return pieceOf(t.events[pos.Seq+1-first:]), false
}

// pieceOf returns the first events, at least one, that are no more than a piece holds: it
// stays in memory as long as a client takes for it.
func pieceOf(events []event.Stored) []event.Stored {
	n, bytes := 0, 0
	for n < min(len(events), pieceEvents) {
		if bytes += sizeOf(events[n]); bytes > pieceBytes && n > 0 {
			break
		}
		n++
	}
	return slices.Clone(events[:n]) // the others are not kept with them
}

func sizeOf(e event.Stored) int {
	size := len(e.Message.Subject) + len(e.Message.Data)
	for name, value := range e.Message.Header {
		size += len(name) + len(value)
	}
	return size
}

// The waits of Next.
const (
	// readWithin bounds the reading of one piece.
	readWithin = 10 * time.Second
	// lookPause is the interval for polling the log while no notification arrives.
	lookPause = 5 * time.Second
)

// Next waits for events after a position and returns at least one, in order and as they were
// written. No state is kept for the caller between calls: a slow or endless follower does not block
// other readers of the log. Its errors are those of eventbus.Cursor, and eventbus.ErrBusy.
func (h *History) Next(ctx context.Context, behind event.Pos) ([]event.Stored, error) {
	for {
		h.mu.RLock()
		piece, atEnd := h.tail.behind(behind)
		sure, moved := h.past.epoch == behind.Epoch, h.moved.Next()
		h.mu.RUnlock()
		if len(piece) > 0 {
			return piece, nil
		}
		if !atEnd || !sure {
			more, err := h.moreBehind(ctx, behind)
			if err != nil {
				return nil, err
			}
			if more {
				return h.readPiece(ctx, behind)
			}
		}
		wait := time.NewTimer(lookPause)
		select {
		case <-moved:
		case <-wait.C:
		case <-ctx.Done():
		}
		wait.Stop()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// moreBehind asks the log whether there is anything behind a place.
func (h *History) moreBehind(ctx context.Context, behind event.Pos) (bool, error) {
	kept, err := h.cfg.Log.Kept(ctx)
	switch {
	case errors.Is(err, eventbus.ErrNoLog):
		return false, fmt.Errorf("%w: there is none now", eventbus.ErrEpochEnded)
	case err != nil:
		return false, err
	case kept.Tip.Epoch != behind.Epoch:
		return false, fmt.Errorf("%w: it was %s, now there is %s", eventbus.ErrEpochEnded, behind.Epoch, kept.Tip.Epoch)
	case kept.Tip.Seq < behind.Seq:
		return false, fmt.Errorf("%w: it ends at %d and was seen up to %d; the store was rewound", eventbus.ErrEpochEnded, kept.Tip.Seq, behind.Seq)
	}
	return kept.Tip.Seq > behind.Seq, nil
}

// readPiece reads events from the log that are not cached.
func (h *History) readPiece(ctx context.Context, behind event.Pos) ([]event.Stored, error) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	cursor, err := h.cfg.Past.Read(ctx, behind)
	if err != nil {
		return nil, err
	}
	defer cursor.Close()
	events, err := cursor.Next(ctx)
	if err != nil {
		return nil, err
	}
	return pieceOf(events), nil
}
