package memory

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
)

// batch is the most that one Next gives.
const batch = 1000

// errClosed is what Next gives after Close.
var errClosed = errors.New("the follower is closed")

type follower struct {
	store *Store
	epoch string
	// newest is what is left of the newest event of each key when the following
	// began; seen is the sequence of the last event that was given or was there
	// already then.
	newest []*record
	seen   uint64

	closing sync.Once
	closed  chan struct{}
}

// Next implements eventbus.Follower.
func (f *follower) Next(ctx context.Context) ([]event.Recorded, error) {
	for {
		records, changed, err := f.take()
		if err != nil {
			return nil, err
		}
		facts, err := decode(records)
		if err != nil || len(facts) > 0 {
			return facts, err
		}
		select {
		case <-changed:
		case <-f.closed:
			return nil, errClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// take gives the next events, which may be none, and moves past them.
func (f *follower) take() ([]*record, <-chan struct{}, error) {
	select {
	case <-f.closed:
		return nil, nil, errClosed
	default:
	}
	records, changed, err := f.store.after(f.epoch, f.seen, batch)
	if err != nil {
		return nil, nil, err
	}
	if len(f.newest) > 0 {
		n := min(batch, len(f.newest))
		records, f.newest = f.newest[:n], f.newest[n:]
		return records, changed, nil
	}
	if len(records) > 0 {
		f.seen = records[len(records)-1].pos.Seq
	}
	return records, changed, nil
}

// Close implements eventbus.Follower.
func (f *follower) Close() { f.closing.Do(func() { close(f.closed) }) }

func decode(records []*record) ([]event.Recorded, error) {
	facts := make([]event.Recorded, 0, len(records))
	for _, r := range records {
		fact, err := event.Decode(r.message)
		if err != nil && !errors.Is(err, event.ErrUnknownType) {
			return nil, fmt.Errorf("%w: %w", eventbus.ErrDamaged, err)
		}
		facts = append(facts, event.Recorded{Pos: r.pos, Fact: fact})
	}
	return facts, nil
}
