package memory

import (
	"context"
	"errors"
	"sync"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
)

// batch is the most that one Next gives.
const batch = 1000

// errClosed is what Next gives after Close.
var errClosed = errors.New("the follower is closed")

// cursor reads forward through one epoch of a store.
type cursor struct {
	store *Store
	epoch string
	// first is what is left of the events to give before those behind seen, which
	// is the place of the last event that was given or passed over.
	first []event.Stored
	seen  uint64

	closing sync.Once
	closed  chan struct{}
}

// Next implements eventbus.Cursor.
func (c *cursor) Next(ctx context.Context) ([]event.Stored, error) {
	for {
		events, changed, err := c.take()
		if err != nil || len(events) > 0 {
			return events, err
		}
		select {
		case <-changed:
		case <-c.closed:
			return nil, errClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// take returns the next events, which may be none, and moves past them.
func (c *cursor) take() ([]event.Stored, <-chan struct{}, error) {
	select {
	case <-c.closed:
		return nil, nil, errClosed
	default:
	}
	events, changed, err := c.store.after(c.epoch, c.seen, batch)
	if err != nil {
		return nil, nil, err
	}
	if len(c.first) > 0 {
		n := min(batch, len(c.first))
		events, c.first = c.first[:n], c.first[n:]
		return events, changed, nil
	}
	if len(events) > 0 {
		c.seen = events[len(events)-1].Pos.Seq
	}
	return events, changed, nil
}

// Close implements eventbus.Cursor.
func (c *cursor) Close() { c.closing.Do(func() { close(c.closed) }) }

// follower is a cursor that reads what is written.
type follower struct{ *cursor }

// Next implements eventbus.Follower.
func (f follower) Next(ctx context.Context) ([]event.Recorded, error) {
	events, err := f.cursor.Next(ctx)
	if err != nil {
		return nil, err
	}
	return eventbus.Open(events)
}
