package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
)

// Log is a log that does not grow, as it was at one moment. It is safe for
// concurrent use.
type Log struct {
	header Header
	events []event.Stored
}

var _ eventbus.Reader = (*Log)(nil)

// Load reads a whole archive into memory and verifies it: eventbus.ErrDamaged,
// with the reason, when its events do not follow each other.
func Load(a *Reader) (*Log, error) { return Collect(a.header, a.Next) }

// Collect does what Load does with events from anywhere: next gives them in order
// and io.EOF behind the last one.
func Collect(h Header, next func() (event.Stored, error)) (*Log, error) {
	v := eventbus.NewVerifier(h.Epoch, event.Mark{})
	var events []event.Stored
	for {
		s, err := next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = v.Take(s)
		}
		if err != nil {
			return nil, err
		}
		events = append(events, s)
	}
	if _, err := v.Done(h.TipPos()); err != nil {
		return nil, err
	}
	return newLog(h, events)
}

// newLog takes events that were verified.
func newLog(h Header, events []event.Stored) (*Log, error) {
	if len(events) > 0 && events[0].Pos.Seq != h.Floor || uint64(len(events)) != h.Len() {
		return nil, fmt.Errorf("%w: the archive says that it holds events %d to %d, and holds %d events", eventbus.ErrDamaged, h.Floor, h.Tip, len(events))
	}
	return &Log{header: h, events: events}, nil
}

// Header returns what the log holds.
func (l *Log) Header() Header { return l.header }

// Event returns the event at a sequence, which must be one that is held.
func (l *Log) Event(seq uint64) event.Stored { return l.events[seq-l.header.Floor] }

// Until returns the log as it was when the event at a sequence was its last. The
// sequence must be one that is held.
func (l *Log) Until(seq uint64) *Log {
	h := l.header
	h.Tip = seq
	return &Log{header: h, events: l.events[:h.Len():h.Len()]}
}

// Tip implements eventbus.Reader.
func (l *Log) Tip(ctx context.Context) (event.Pos, error) { return l.header.TipPos(), ctx.Err() }

// Kept implements eventbus.Reader. It counts no bytes.
func (l *Log) Kept(ctx context.Context) (eventbus.Kept, error) {
	return eventbus.Kept{Floor: event.Pos{Epoch: l.header.Epoch, Seq: l.header.Floor}, Tip: l.header.TipPos()}, ctx.Err()
}

// Follow implements eventbus.Reader.
func (l *Log) Follow(ctx context.Context) (eventbus.Follower, error) {
	newest := map[string]bool{}
	var events []event.Stored
	for _, s := range slices.Backward(l.events) {
		if !newest[s.Message.Subject] {
			newest[s.Message.Subject] = true
			events = append(events, s)
		}
	}
	slices.Reverse(events)
	return follower{newCursor(events)}, ctx.Err()
}

// Read implements eventbus.Reader.
func (l *Log) Read(ctx context.Context, behind event.Pos) (eventbus.Cursor, error) {
	switch {
	case behind == event.Pos{}:
		behind = event.Pos{Epoch: l.header.Epoch, Seq: l.header.Floor - 1}
	case behind.Epoch != l.header.Epoch:
		return nil, fmt.Errorf("%w: %s, this one is %s", eventbus.ErrEpochEnded, behind.Epoch, l.header.Epoch)
	case behind.Seq+1 < l.header.Floor:
		return nil, fmt.Errorf("%w: it begins at event %d", eventbus.ErrGone, l.header.Floor)
	}
	first := min(behind.Seq+1-l.header.Floor, uint64(len(l.events)))
	return newCursor(l.events[first:]), ctx.Err()
}

// HistoryOf implements eventbus.Reader.
func (l *Log) HistoryOf(ctx context.Context, key event.Key) ([]event.Recorded, error) {
	var of []event.Stored
	for _, s := range l.events {
		if s.Message.Subject == key.Subject() {
			of = append(of, s)
		}
	}
	facts, err := eventbus.Open(of)
	return facts, errors.Join(err, ctx.Err())
}

// batch is the most that one Next gives.
const batch = 1000

var errClosed = errors.New("the follower is closed")

// cursor gives events, and then waits for ever.
type cursor struct {
	rest    []event.Stored
	closing sync.Once
	closed  chan struct{}
}

func newCursor(events []event.Stored) *cursor {
	return &cursor{rest: events, closed: make(chan struct{})}
}

// Next implements eventbus.Cursor.
func (c *cursor) Next(ctx context.Context) ([]event.Stored, error) {
	select {
	case <-c.closed:
		return nil, errClosed
	default:
	}
	if n := min(batch, len(c.rest)); n > 0 {
		events := c.rest[:n:n]
		c.rest = c.rest[n:]
		return events, nil
	}
	select {
	case <-c.closed:
		return nil, errClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
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
