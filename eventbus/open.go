package eventbus

import (
	"context"
	"errors"
	"fmt"

	"switchyard.dev/eventbus/event"
)

// Open reads events of a log, as a Follower gives them: those of a newer kind
// without data. ErrDamaged when one does not read; those before it are returned as well.
func Open(events []event.Stored) ([]event.Recorded, error) {
	facts := make([]event.Recorded, 0, len(events))
	for _, s := range events {
		r, err := OpenEvent(s)
		if err != nil {
			return facts, err
		}
		facts = append(facts, r)
	}
	return facts, nil
}

// OpenEvent is Open of one event.
func OpenEvent(s event.Stored) (event.Recorded, error) {
	r, err := event.Open(s)
	if err != nil && !errors.Is(err, event.ErrUnknownType) {
		return event.Recorded{}, fmt.Errorf("%w: event %d: %w", ErrDamaged, s.Pos.Seq, err)
	}
	return r, nil
}

// FollowerOf returns a Follower that reads what a Cursor gives.
func FollowerOf(c Cursor) Follower { return &follower{Cursor: c} }

type follower struct {
	Cursor
	// failed is given by the Next after the one that gave the facts before it.
	failed error
}

// Next implements Follower.
func (f *follower) Next(ctx context.Context) ([]event.Recorded, error) {
	if f.failed != nil {
		return nil, f.failed
	}
	events, err := f.Cursor.Next(ctx)
	if err != nil {
		return nil, err
	}
	facts, err := Open(events)
	if f.failed = err; len(facts) > 0 {
		return facts, nil
	}
	return nil, err
}
