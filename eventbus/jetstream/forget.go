package jetstream

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
)

// Forget implements eventbus.Log.
func (l *Log) Forget(ctx context.Context, floor event.Pos) error {
	l.state.Lock()
	defer l.state.Unlock()
	seen, err := l.readState(ctx)
	switch {
	case err != nil:
		return err
	case l.replica.tip.Epoch == "":
		return fmt.Errorf("%w: Begin was not called", eventbus.ErrNoLog)
	case seen.epoch != floor.Epoch || l.replica.tip.Epoch != floor.Epoch:
		return epochEnded(floor.Epoch, seen.epoch)
	case floor.Seq <= seen.floor:
		return nil
	}
	at, err := l.message(ctx, seen, floor.Seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && at.Message.Subject != event.LogFloor.Subject() {
		return fmt.Errorf("%w: event %d is no floor to begin at", eventbus.ErrRefused, floor.Seq)
	}
	if err != nil {
		return fmt.Errorf("read the floor at %d: %w", floor.Seq, err)
	}
	if err := l.purge(ctx, seen, floor.Seq); err != nil {
		return err
	}
	l.replica.forget(floor.Seq)
	return nil
}

// finishForgetting finishes an interrupted Forget: the server had deleted a part of the events
// below a floor.
func (l *Log) finishForgetting(ctx context.Context, seen streamState, floor uint64, why error) error {
	l.config.Logger.Warn("forgetting old events of the routing log was interrupted; finishing it",
		"epoch", seen.epoch, "first", seen.floor, "floor", floor, "reason", why)
	return l.purge(ctx, seen, floor)
}

func (l *Log) purge(ctx context.Context, seen streamState, floor uint64) error {
	bounded, done := l.attempt(ctx)
	if err := done(seen.stream.Purge(bounded, jetstream.WithPurgeSequence(floor))); err != nil {
		return fmt.Errorf("forget what lies before %d: %w", floor, err)
	}
	return nil
}
