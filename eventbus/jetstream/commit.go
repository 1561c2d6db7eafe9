package jetstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/wake"
)

// commit records a batch of facts, and answers each one. It takes no longer than
// one answer may.
func (l *Log) commit(batch []*waiting) {
	l.state.Lock()
	defer l.state.Unlock()
	ctx, cancel := context.WithTimeoutCause(context.Background(), answerTimeout, errNoAnswer)
	defer cancel()
	if l.unsure || l.stale(batch) {
		if err := l.catchUp(ctx, l.replica.take); err != nil {
			answerAll(batch, err)
			return
		}
	}
	todo := l.decide(batch)
	for limit := l.cost.limit(len(todo)); len(todo) > 0; {
		n, began := min(limit, len(todo)), time.Now()
		err := l.publish(ctx, todo[:n])
		switch {
		case err == nil:
			l.cost.took(n, time.Since(began))
			l.recorded(todo[:n])
			todo = todo[n:]
		case isCertain(err) && n > 1:
			limit = n / 2 // one of them does not go; find out which
		case isCertain(err):
			todo[0].answer(event.Mark{}, err)
			todo = l.decide(waitingOf(todo[1:]))
		case errors.Is(err, errAway): // so nothing was sent
			answerAll(waitingOf(todo), err)
			return
		default:
			l.unsure = true
			left, failed := l.findOut(ctx, todo)
			if failed != nil {
				answerAll(waitingOf(left), fmt.Errorf("%w (after %w)", failed, err))
				return
			}
			todo = left
		}
	}
}

// recorded updates the replica with the recorded facts, and notifies their callers.
func (l *Log) recorded(todo []sealed) {
	for _, s := range todo {
		l.replica.own(s)
	}
	for _, s := range todo {
		s.answer(s.mark, nil)
	}
}

// findOut reads the log after the known tip, when another writer has written there or an answer
// was unclear. It answers for those of this writer's facts that are in the log, and returns the
// rest to be published: unchanged while the tip is where it was, so that a copy that is still
// in flight and this one can never both be recorded, and decided again when it has moved, which
// invalidates such a copy.
func (l *Log) findOut(ctx context.Context, todo []sealed) ([]sealed, error) {
	was := l.replica.tip
	for {
		err := l.catchUp(ctx, func(s event.Stored) error {
			err := l.replica.take(s)
			if err == nil && len(todo) > 0 && l.replica.tip == todo[0].mark {
				todo[0].answer(todo[0].mark, nil)
				todo = todo[1:]
			}
			return err
		})
		if err == nil && l.replica.tip != was {
			break
		}
		if err != nil && (ctx.Err() != nil || isEnd(err) || l.config.Conn.IsClosed()) {
			return todo, err
		}
		// The server is not there, or it is and the log has not moved.
		if !wake.Sleep(ctx, pauseBetween) {
			return todo, context.Cause(ctx)
		}
		if err == nil {
			return todo, nil
		}
	}
	return l.decide(waitingOf(todo)), nil // the tip has moved
}

// pauseBetween is between two attempts to publish the same, or to reach the leader.
const pauseBetween = 20 * time.Millisecond

// isEnd reports whether an error means that there is no log to write to.
func isEnd(err error) bool { return final(err) || errors.Is(err, eventbus.ErrNoLog) }

// few is how many events are read one by one rather than by a consumer.
const few = 16

// catchUp calls take with every event after the known tip; take must update the replica.
func (l *Log) catchUp(ctx context.Context, take func(event.Stored) error) error {
	seen, err := l.readState(ctx)
	switch {
	case errors.Is(err, eventbus.ErrNoLog):
		return err
	case err != nil:
		return fmt.Errorf("read the new events of the log: %w", err)
	case seen.epoch != l.replica.tip.Epoch:
		return epochEnded(l.replica.tip.Epoch, seen.epoch)
	case seen.tip < l.replica.tip.Seq:
		return fmt.Errorf("%w: it ends at %d and had reached %d; its store was rewound", eventbus.ErrDamaged, seen.tip, l.replica.tip.Seq)
	case seen.tip-l.replica.tip.Seq <= few:
		err = l.readEach(ctx, seen, l.replica.tip.Seq+1, take)
	default:
		err = l.readTo(ctx, l.replica.tip.Pos, seen.tip, take)
	}
	if err != nil {
		return err
	}
	l.replica.forget(seen.floor)
	l.unsure = false
	return nil
}

// readEach calls take with every event from a place up to the tip seen.
func (l *Log) readEach(ctx context.Context, seen streamState, from uint64, take func(event.Stored) error) error {
	for seq := from; seq <= seen.tip; seq++ {
		e, err := l.get(ctx, seen, seq)
		if err != nil {
			return err
		}
		if err := take(e); err != nil {
			return err
		}
	}
	return nil
}

// readTo calls take with every event behind a place up to a sequence, or further.
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
