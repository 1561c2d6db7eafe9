// Package memory is a log that lives in memory: for tests, and for a program
// that holds writer and readers in one process and needs no history after it.
//
// A Store is what a disk would be; Open gives a Log on it, as another process
// would have one. Facts are kept in written form, so that they take the same
// way as through JetStream. Like there, only the last History events of each
// key are kept. Losing the process loses the log; the publisher then fills a
// new one.
package memory

import (
	"context"
	"errors"
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

// New gives a log on a store of its own.
func New() *Log { return NewStore().Open() }

// Tip implements eventbus.Reader.
func (l *Log) Tip(ctx context.Context) (event.Pos, error) {
	if err := ctx.Err(); err != nil {
		return event.Pos{}, err
	}
	return l.store.tip()
}

// Follow implements eventbus.Reader.
func (l *Log) Follow(ctx context.Context) (eventbus.Follower, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return l.store.follow()
}

// Begin implements eventbus.Log.
func (l *Log) Begin(ctx context.Context) (event.Pos, error) {
	if err := ctx.Err(); err != nil {
		return event.Pos{}, err
	}
	return l.believe(l.store.begin(false)), nil
}

// Restart implements eventbus.Log.
func (l *Log) Restart(ctx context.Context) (event.Pos, error) {
	if err := ctx.Err(); err != nil {
		return event.Pos{}, err
	}
	return l.believe(l.store.begin(true)), nil
}

func (l *Log) believe(pos event.Pos) event.Pos {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epoch = pos.Epoch
	return pos
}

// Append implements eventbus.Log.
func (l *Log) Append(ctx context.Context, f event.Fact, last uint64) (event.Pos, error) {
	if err := ctx.Err(); err != nil {
		return event.Pos{}, err
	}
	m, err := event.Encode(f)
	if err != nil {
		return event.Pos{}, fmt.Errorf("%w: %w", eventbus.ErrRefused, err)
	}
	if size := sizeOf(m); size > eventbus.MaxEvent {
		return event.Pos{}, fmt.Errorf("%w: the fact of %q takes %d bytes, more than %d", eventbus.ErrRefused, f.Key, size, eventbus.MaxEvent)
	}
	l.mu.Lock()
	epoch := l.epoch
	l.mu.Unlock()
	return l.store.append(epoch, f.Key, m, last)
}

// Newest implements eventbus.Log.
func (l *Log) Newest(ctx context.Context, key event.Key) (event.Recorded, bool, error) {
	if err := ctx.Err(); err != nil {
		return event.Recorded{}, false, err
	}
	r, ok, err := l.store.newestOf(key)
	if err != nil || !ok {
		return event.Recorded{}, false, err
	}
	fact, err := event.Decode(r.message)
	if err != nil && !errors.Is(err, event.ErrUnknownType) {
		return event.Recorded{}, false, fmt.Errorf("%w: %w", eventbus.ErrDamaged, err)
	}
	return event.Recorded{Pos: r.pos, Fact: fact}, true, nil
}

// sizeOf counts the bytes of an event as NATS would send it.
func sizeOf(m event.Message) int {
	size := len(m.Data)
	for name, value := range m.Header {
		size += len(name) + len(value) + len(": \r\n")
	}
	return size
}
