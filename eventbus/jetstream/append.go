package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
)

// decisions bounds how often one Append decides anew because others wrote.
const decisions = 64

// Append implements eventbus.Log.
func (l *Log) Append(ctx context.Context, f event.Fact, last uint64) (event.Mark, error) {
	m, err := event.Encode(f)
	if err != nil {
		return event.Mark{}, fmt.Errorf("%w: %w", eventbus.ErrRefused, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.replica.tip.Epoch == "" {
		return event.Mark{}, fmt.Errorf("%w: Begin was not called", eventbus.ErrNoLog)
	}
	for range decisions {
		// Somebody else may have written what the caller has seen and we have not.
		if l.unsure || l.replica.newest[m.Subject] != last {
			if err := l.catchUp(ctx); err != nil {
				return event.Mark{}, err
			}
		}
		if newest := l.replica.newest[m.Subject]; newest != last {
			return event.Mark{}, fmt.Errorf("%w: %q is at %d, not at %d", eventbus.ErrConflict, f.Key, newest, last)
		}
		mark, err := l.record(ctx, m)
		if err == nil || !l.unsure || !errors.Is(err, eventbus.ErrConflict) {
			return mark, err
		}
	}
	return event.Mark{}, fmt.Errorf("append a fact of %q: others kept writing through %d attempts", f.Key, decisions)
}

// record publishes a fact behind the tip.
func (l *Log) record(ctx context.Context, m event.Message) (event.Mark, error) {
	at := l.replica.now(time.Now())
	sealed, mark := event.Seal(m, l.replica.tip, at)
	msg := toNATS(mark.Epoch, sealed)
	if msg.Size() > eventbus.MaxEvent {
		return event.Mark{}, fmt.Errorf("%w: the fact on %s takes %d bytes, more than %d", eventbus.ErrRefused, m.Subject, msg.Size(), eventbus.MaxEvent)
	}
	msg.Header.Set(jetstream.ExpectedStreamHeader, StreamName)
	msg.Header.Set(jetstream.ExpectedLastSeqHeader, strconv.FormatUint(l.replica.tip.Seq, 10))
	bounded, done := l.attempt(ctx)
	ack, err := l.js.PublishMsg(bounded, msg, jetstream.WithRetryAttempts(0))
	if err := done(err); err != nil {
		l.unsure = true
		return event.Mark{}, l.appendError(ctx, mark.Epoch, m.Subject, err)
	}
	if ack.Sequence != mark.Seq {
		l.unsure = true
		return event.Mark{}, fmt.Errorf("%w: event %d was recorded as %d", eventbus.ErrDamaged, mark.Seq, ack.Sequence)
	}
	return mark, l.replica.add(event.Stored{Pos: mark.Pos, Message: sealed}, mark)
}

// catchUp reads what is behind the known tip.
func (l *Log) catchUp(ctx context.Context) error {
	seen, err := l.look(ctx)
	switch {
	case errors.Is(err, eventbus.ErrNoLog):
		return err
	case err != nil:
		return fmt.Errorf("read what others wrote: %w", err)
	case seen.epoch != l.replica.tip.Epoch:
		return fmt.Errorf("%w: it was %s, now there is %s", eventbus.ErrEpochEnded, l.replica.tip.Epoch, seen.epoch)
	case seen.tip < l.replica.tip.Seq:
		return fmt.Errorf("%w: it ends at %d and had reached %d; its store was rewound", eventbus.ErrDamaged, seen.tip, l.replica.tip.Seq)
	}
	err = l.readTo(ctx, l.replica.tip.Pos, seen.tip, l.replica.take)
	if err == nil {
		l.replica.forget(seen.floor)
		l.unsure = false
	}
	return err
}

// readTo gives every event behind a place up to a sequence to take.
func (l *Log) readTo(ctx context.Context, behind event.Pos, to uint64, take func(event.Stored) error) error {
	if behind.Seq >= to {
		return nil
	}
	c, err := l.Read(ctx, behind)
	if err != nil {
		return err
	}
	defer c.Close()
	for at := behind.Seq; at < to; {
		events, err := c.Next(ctx)
		if err != nil {
			return err
		}
		for _, e := range events {
			if err := take(e); err != nil {
				return err
			}
			at = e.Pos.Seq
		}
	}
	return nil
}
