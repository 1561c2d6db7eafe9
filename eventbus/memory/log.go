// Package memory is a log that lives in memory: for tests, for a program that holds writer
// and readers in one process and needs no history after it, and for one that reads a log
// which it has as a whole (Holding).
//
// A Store is what a disk would be; Open returns a Log on it, as another process
// would have one. Facts are kept in written form and sealed, so that they take
// the same way as through JetStream. Losing the process loses the log; the
// publisher then fills a new one.
package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
)

// Log is a log on a Store. It is safe for concurrent use.
type Log struct {
	store *Store
	epoch string // the one this value writes to; empty before Begin. store.mu guards it.
}

var _ eventbus.Log = (*Log)(nil)

// New returns a log on a store of its own.
func New() *Log { return NewStore().Open() }

// Tip implements eventbus.Reader.
func (l *Log) Tip(ctx context.Context) (event.Pos, error) {
	kept, err := l.Kept(ctx)
	return kept.Tip, err
}

// Kept implements eventbus.Reader.
func (l *Log) Kept(ctx context.Context) (kept eventbus.Kept, err error) {
	s := l.store
	err = s.withLog(ctx, func() error {
		kept = eventbus.Kept{Floor: event.Pos{Epoch: s.tip.Epoch, Seq: s.floor()}, Tip: s.tip.Pos, Bytes: s.bytes}
		return nil
	})
	return kept, err
}

// Follow implements eventbus.Reader.
func (l *Log) Follow(ctx context.Context) (eventbus.Follower, error) {
	s, c := l.store, newCursor(l.store)
	err := s.withLog(ctx, func() error {
		c.behind = s.tip.Pos
		for _, e := range s.events {
			if key, err := event.KeyOf(e.Message.Subject); err == nil && s.newest[key] == e.Pos.Seq {
				c.first = append(c.first, e)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return eventbus.FollowerOf(c), nil
}

// Read implements eventbus.Reader.
func (l *Log) Read(ctx context.Context, behind event.Pos) (eventbus.Cursor, error) {
	s, c := l.store, newCursor(l.store)
	err := s.withLog(ctx, func() error {
		if behind == (event.Pos{}) {
			behind = event.Pos{Epoch: s.tip.Epoch, Seq: s.floor() - 1}
		}
		c.behind = behind
		return s.reaches(behind)
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// HistoryOf implements eventbus.Reader.
func (l *Log) HistoryOf(ctx context.Context, key event.Key) ([]event.Recorded, error) {
	var of []event.Stored
	err := l.store.withLog(ctx, func() error {
		for _, e := range l.store.events {
			if e.Message.Subject == key.Subject() {
				of = append(of, e)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return eventbus.Open(of)
}

// Newest implements eventbus.Log.
func (l *Log) Newest(ctx context.Context, key event.Key) (event.Recorded, bool, error) {
	var newest event.Stored
	var ok bool
	err := l.store.withLog(ctx, func() error {
		var seq uint64
		if seq, ok = l.store.newest[key]; ok {
			newest = l.store.events[l.store.index(seq)]
		}
		return nil
	})
	if err != nil || !ok {
		return event.Recorded{}, false, err
	}
	r, err := eventbus.OpenEvent(newest)
	return r, err == nil, err
}

// Begin implements eventbus.Log.
func (l *Log) Begin(ctx context.Context, known event.Mark) (event.Mark, error) {
	if err := ctx.Err(); err != nil {
		return event.Mark{}, err
	}
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	if l.store.tip.Epoch == "" {
		return l.begin(), nil
	}
	if err := eventbus.Verify(l.store.events, l.store.tip, known); err != nil {
		return event.Mark{}, err
	}
	l.epoch = l.store.tip.Epoch
	return l.store.tip, nil
}

// Restart implements eventbus.Log.
func (l *Log) Restart(ctx context.Context, epoch string) (event.Mark, error) {
	if err := ctx.Err(); err != nil {
		return event.Mark{}, err
	}
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	if now := l.store.tip.Epoch; epoch != "" && now != "" && now != epoch {
		return event.Mark{}, fmt.Errorf("%w: %s, now it is %s", eventbus.ErrEpochEnded, epoch, now)
	}
	return l.begin(), nil
}

// begin begins an empty log, and returns its first Mark. store.mu is held.
func (l *Log) begin() event.Mark {
	l.store.replace(event.Before(eventbus.NewEpoch()), nil)
	l.epoch = l.store.tip.Epoch
	return l.store.tip
}

// Append implements eventbus.Log.
func (l *Log) Append(ctx context.Context, f event.Fact, last uint64) (mark event.Mark, err error) {
	m, err := event.Encode(f)
	if err != nil {
		return event.Mark{}, fmt.Errorf("%w: %w", eventbus.ErrRefused, err)
	}
	if size := m.Size(); size > eventbus.MaxEvent {
		return event.Mark{}, fmt.Errorf("%w: the fact of %q takes %d bytes, more than %d", eventbus.ErrRefused, f.Key, size, eventbus.MaxEvent)
	}
	err = l.store.withLog(ctx, func() error {
		if err := l.store.present(l.epoch); err != nil {
			return err
		}
		if newest := l.store.newest[f.Key]; newest != last {
			return fmt.Errorf("%w: %q is at %d, not at %d", eventbus.ErrConflict, f.Key, newest, last)
		}
		mark = l.store.record(f.Key, m)
		return nil
	})
	return mark, err
}

// Forget implements eventbus.Log.
func (l *Log) Forget(ctx context.Context, floor event.Pos) error {
	s := l.store
	return s.withLog(ctx, func() error {
		if err := s.present(floor.Epoch); err != nil {
			return err
		}
		n := s.index(floor.Seq)
		switch {
		case floor.Seq <= s.floor():
			return nil
		case n == len(s.events) || s.events[n].Message.Subject != event.LogFloor.Subject():
			return fmt.Errorf("%w: event %d is no floor to begin at", eventbus.ErrRefused, floor.Seq)
		}
		s.replace(s.tip, slices.Clone(s.events[n:]))
		return nil
	})
}

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
