package embedded

import (
	"context"
	"errors"
	"fmt"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/embedded/store"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/jetstream"
	"switchyard.dev/eventbus/wake"
)

// verify reads the log from its floor to its tip and compares it with the witness, and returns
// the Mark of the tip; the zero Mark when there is no log, and there was none. A
// store.DamageError means that the store cannot be used.
func (o *opened) verify(ctx context.Context, known event.Mark) (event.Mark, error) {
	kept, cursor, err := o.begin(ctx)
	if errors.Is(err, eventbus.ErrNoLog) {
		return event.Mark{}, o.dir.Empty(known)
	}
	if err != nil {
		return event.Mark{}, err
	}
	defer cursor.Close()
	// Not the plain Verifier: a log that was cut off while it forgot is no damage.
	v := jetstream.NewVerification(kept.Tip.Epoch, known)
	if err := o.readAll(ctx, cursor, kept, v); err != nil {
		return event.Mark{}, err
	}
	tip, err := v.Done(kept.Tip)
	if err != nil {
		return event.Mark{}, damaged(kindOf(kept.Tip, known), err)
	}
	return tip, nil
}

// begin begins to read the log. It asks again while the server does not answer:
// that alone is no damage.
func (o *opened) begin(ctx context.Context) (kept eventbus.Kept, cursor eventbus.Cursor, err error) {
	for began := time.Now(); time.Since(began) < patience && ctx.Err() == nil; time.Sleep(stall) {
		if kept, err = o.mine.Kept(ctx); errors.Is(err, eventbus.ErrNoLog) {
			return kept, nil, err
		}
		if err == nil {
			cursor, err = o.mine.Read(ctx, event.Pos{})
		}
		if err == nil {
			return kept, cursor, nil
		}
	}
	if ctx.Err() != nil {
		return kept, nil, ctx.Err() // we gave it up ourselves
	}
	return kept, nil, damaged(store.Unreadable, err)
}

// damaged returns the error of a store that cannot be used.
func damaged(kind store.Damage, why error) error { return store.DamageError{Kind: kind, Why: why} }

// kindOf returns the kind of damage of a log that is not whole up to its tip.
func kindOf(tip event.Pos, known event.Mark) store.Damage {
	if tip.Epoch == known.Epoch && tip.Seq < known.Seq {
		return store.Rewound
	}
	return store.Altered
}

// readAll reads every event up to the tip. The server does not always report that it cannot
// read an event, it may just not deliver it: so a missing one is requested by its number.
func (o *opened) readAll(ctx context.Context, cursor eventbus.Cursor, kept eventbus.Kept, v *jetstream.Verification) error {
	next, moved := kept.Floor.Seq, time.Now()
	for next <= kept.Tip.Seq {
		bounded, cancel := context.WithTimeout(ctx, stall)
		events, err := cursor.Next(bounded)
		cancel()
		switch {
		case err != nil && ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, eventbus.ErrDamaged):
			return damaged(store.Altered, err)
		case errors.Is(err, eventbus.ErrEpochEnded), errors.Is(err, eventbus.ErrGone):
			return damaged(store.Unreadable, err)
		case err != nil:
			if err := o.there(ctx, next, time.Since(moved)); err != nil {
				return err
			}
		}
		for _, e := range events {
			if err := v.Take(e); err != nil {
				return damaged(store.Altered, err)
			}
			next, moved = e.Pos.Seq+1, time.Now()
		}
	}
	return nil
}

// there returns nil when an event that has not come for so long can be expected to.
func (o *opened) there(ctx context.Context, seq uint64, waited time.Duration) error {
	if waited > patience {
		return damaged(store.Unreadable, fmt.Errorf("event %d could not be read within %s", seq, patience))
	}
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s, err := o.js.Stream(bounded, jetstream.StreamName)
	if err == nil {
		_, err = s.GetMsg(bounded, seq)
	}
	if errors.Is(err, natsjs.ErrMsgNotFound) {
		return damaged(store.Altered, fmt.Errorf("event %d is missing or does not read", seq))
	}
	if err != nil { // no server answers yet
		wake.Sleep(ctx, stall)
	}
	return nil
}
