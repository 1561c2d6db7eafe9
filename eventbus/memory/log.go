// Package memory is a log that lives in memory: for tests, and for a program
// that holds writer and readers in one process and needs no history after it.
//
// A Store is what a disk would be; Open gives a Log on it, as another process
// would have one. Facts are kept in written form and sealed, so that they take
// the same way as through JetStream. Losing the process loses the log; the
// publisher then fills a new one.
package memory

import (
	"context"
	"fmt"
	"sync"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
)

// Log is a log on a Store. It is safe for concurrent use.
type Log struct {
	store *Store

	mu    sync.Mutex
	epoch string // the one this value writes to; empty before Begin
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
func (l *Log) Kept(ctx context.Context) (eventbus.Kept, error) {
	if err := ctx.Err(); err != nil {
		return eventbus.Kept{}, err
	}
	return l.store.kept()
}

// Follow implements eventbus.Reader.
func (l *Log) Follow(ctx context.Context) (eventbus.Follower, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c, err := l.store.follow()
	if err != nil {
		return nil, err
	}
	return follower{c}, nil
}

// Read implements eventbus.Reader.
func (l *Log) Read(ctx context.Context, behind event.Pos) (eventbus.Cursor, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c, err := l.store.read(behind)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// HistoryOf implements eventbus.Reader.
func (l *Log) HistoryOf(ctx context.Context, key event.Key) ([]event.Recorded, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	events, err := l.store.of(key)
	if err != nil {
		return nil, err
	}
	return eventbus.Open(events)
}

// Begin implements eventbus.Log.
func (l *Log) Begin(ctx context.Context, known event.Mark) (event.Mark, error) {
	if err := ctx.Err(); err != nil {
		return event.Mark{}, err
	}
	return l.believe(l.store.begin(known))
}

// Restart implements eventbus.Log.
func (l *Log) Restart(ctx context.Context, epoch string) (event.Mark, error) {
	if err := ctx.Err(); err != nil {
		return event.Mark{}, err
	}
	return l.believe(l.store.restart(epoch))
}

func (l *Log) believe(tip event.Mark, err error) (event.Mark, error) {
	if err != nil {
		return event.Mark{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epoch = tip.Epoch
	return tip, nil
}

// Append implements eventbus.Log.
func (l *Log) Append(ctx context.Context, f event.Fact, last uint64) (event.Mark, error) {
	if err := ctx.Err(); err != nil {
		return event.Mark{}, err
	}
	m, err := event.Encode(f)
	if err != nil {
		return event.Mark{}, fmt.Errorf("%w: %w", eventbus.ErrRefused, err)
	}
	if size := sizeOf(m); size > eventbus.MaxEvent {
		return event.Mark{}, fmt.Errorf("%w: the fact of %q takes %d bytes, more than %d", eventbus.ErrRefused, f.Key, size, eventbus.MaxEvent)
	}
	l.mu.Lock()
	epoch := l.epoch
	l.mu.Unlock()
	return l.store.append(epoch, f.Key, m, last)
}

// Forget implements eventbus.Log.
func (l *Log) Forget(ctx context.Context, floor event.Pos) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return l.store.forget(floor)
}

// Newest implements eventbus.Log.
func (l *Log) Newest(ctx context.Context, key event.Key) (event.Recorded, bool, error) {
	if err := ctx.Err(); err != nil {
		return event.Recorded{}, false, err
	}
	e, ok, err := l.store.newestOf(key)
	if err != nil || !ok {
		return event.Recorded{}, false, err
	}
	facts, err := eventbus.Open([]event.Stored{e})
	if err != nil {
		return event.Recorded{}, false, err
	}
	return facts[0], true, nil
}

// sizeOf counts the bytes of an event as NATS would send it.
func sizeOf(m event.Message) int {
	size := len(m.Data)
	for name, value := range m.Header {
		size += len(name) + len(value) + len(": \r\n")
	}
	return size
}
