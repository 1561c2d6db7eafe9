package jetstream

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
)

// answerTimeout bounds one request. A healthy server answers within milliseconds, one with a
// slow disk within a second; a server that does not answer at all, because its disk is full or
// broken, counts as unreachable.
const answerTimeout = 5 * time.Second

var (
	errNoAnswer     = errors.New("the event bus did not answer in time")
	errAway         = errors.New("the event bus is not connected")
	errDisconnected = errors.New("the connection to the event bus was lost before the answer came")
)

// attempt bounds one request to the server: by answerTimeout, and by the life of
// the connection, because the answer to a request never comes over the next one.
// The caller calls done with the error of the request, and gets the reason.
func (l *Log) attempt(ctx context.Context) (bounded context.Context, done func(error) error) {
	ctx, stopTimer := context.WithTimeoutCause(ctx, answerTimeout, errNoAnswer)
	ctx, cancel := context.WithCancelCause(ctx)
	lost := l.config.Conn.StatusChanged(nats.DISCONNECTED, nats.RECONNECTING, nats.CLOSED)
	go func() {
		select {
		case <-lost:
			cancel(errDisconnected)
		case <-ctx.Done():
		}
	}()
	return ctx, func(err error) error {
		if cause := context.Cause(ctx); err != nil && cause != nil {
			err = cause
		}
		// The client's error for a request that it would have to buffer.
		if errors.Is(err, nats.ErrReconnectBufExceeded) {
			err = errAway
		}
		l.config.Conn.RemoveStatusListener(lost)
		cancel(nil)
		stopTimer()
		return err
	}
}
