package jetstream

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
)

// take takes an event and all that have come with it.
func (r *reading) take(ctx context.Context, msg jetstream.Msg) ([]event.Stored, error) {
	var events []event.Stored
	for {
		e, err := r.takeOne(ctx, msg)
		if err != nil {
			return events, err
		}
		events = append(events, e)
		select {
		case next, more := <-r.request.Messages():
			if !more {
				return events, nil // the closed channel is met again in the next step
			}
			msg = next
		default:
			return events, nil
		}
	}
}

var errGap = errors.New("events were lost on the way; asking again")

func (r *reading) takeOne(ctx context.Context, msg jetstream.Msg) (event.Stored, error) {
	meta, err := msg.Metadata()
	if err != nil {
		return event.Stored{}, fmt.Errorf("%w: %w", errGap, err)
	}
	if meta.Sequence.Consumer != r.delivered+1 || meta.Sequence.Stream <= r.last.Seq {
		return event.Stored{}, errGap
	}
	e := fromNATS(event.Pos{Epoch: r.epoch, Seq: meta.Sequence.Stream}, msg.Subject(), msg.Headers(), msg.Data())
	if err := r.follows(ctx, e); err != nil {
		return event.Stored{}, err
	}
	chain, err := event.ChainOf(e.Message)
	if err != nil {
		chain = event.Chain{} // the reader of the event reports it
	}
	r.gave, r.delivered = true, r.delivered+1
	r.last = event.Mark{Pos: e.Pos, Chain: chain}
	return e, nil
}

// follows returns an error if an event does not follow the last one. A cursor returns events
// unverified, for audits; a follower must not use an event that does not fit.
func (r *reading) follows(ctx context.Context, e event.Stored) error {
	switch {
	case e.Pos.Seq == r.last.Seq+1:
		if !r.fold || r.last.Chain == (event.Chain{}) {
			return nil
		}
		if _, err := event.Check(e, r.last.Chain); err != nil {
			return fmt.Errorf("%w: %w", eventbus.ErrDamaged, err)
		}
		return nil
	case r.fold && e.Pos.Seq <= r.loose:
		return nil
	}
	seen, err := r.log.readState(ctx)
	if err := r.endedAt(seen, err); err != nil {
		return err
	}
	if r.fold && e.Pos.Seq <= r.strict {
		return nil
	}
	return fmt.Errorf("%w: the events behind %d up to %d are missing", eventbus.ErrDamaged, r.last.Seq, e.Pos.Seq)
}
