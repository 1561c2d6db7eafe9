package memory

import (
	"context"
	"errors"
	"slices"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
)

// batch is the most that one Next returns.
const batch = 1000

// errClosed is what Next returns after Close.
var errClosed = errors.New("the follower is closed")

// cursor reads forward through one epoch of a store.
type cursor struct {
	store *Store
	// first are the remaining events to return before those after behind, which is the place of
	// the last event that was returned or skipped.
	first  []event.Stored
	behind event.Pos

	closed context.Context
	close  context.CancelFunc
}

func newCursor(s *Store) *cursor {
	closed, cancel := context.WithCancel(context.Background())
	return &cursor{store: s, closed: closed, close: cancel}
}

// Next implements eventbus.Cursor.
func (c *cursor) Next(ctx context.Context) ([]event.Stored, error) {
	for c.closed.Err() == nil {
		events, changed, err := c.take()
		if err != nil || len(events) > 0 {
			return events, err
		}
		select {
		case <-changed:
		case <-c.closed.Done():
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return nil, errClosed
}

// take returns the next events, which may be none, and moves past them. The channel closes
// when there may be more.
func (c *cursor) take() ([]event.Stored, <-chan struct{}, error) {
	s := c.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tip.Epoch != c.behind.Epoch || s.tip.Seq < c.behind.Seq {
		return nil, nil, eventbus.ErrEpochEnded
	}
	if err := s.reaches(c.behind); err != nil {
		return nil, nil, err
	}
	if n := min(batch, len(c.first)); n > 0 {
		events := c.first[:n]
		c.first = c.first[n:]
		return events, nil, nil
	}
	from := s.index(c.behind.Seq + 1)
	events := slices.Clone(s.events[from:min(len(s.events), from+batch)])
	c.behind.Seq += uint64(len(events))
	return events, s.changed.Next(), nil
}

// Close implements eventbus.Cursor.
func (c *cursor) Close() { c.close() }
