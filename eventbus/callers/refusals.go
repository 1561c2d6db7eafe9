package callers

import (
	"context"
	"net"
	"time"

	"golang.org/x/time/rate"

	"switchyard.dev/eventbus/wake"
)

// refusedAfter is the time between two refusals of a connection, after refusedAtOnce in a row. refusedWithin bounds the
// wait of one: servers end requests without an answer, and clients can share a connection through a proxy.
const refusedAfter, refusedAtOnce, refusedWithin = 250 * time.Millisecond, 8, 5 * time.Second

type refusalsKey struct{}

// Refusals is the ConnContext of a server with a handler that calls Refused.
func Refusals(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, refusalsKey{}, rate.NewLimiter(rate.Every(refusedAfter), refusedAtOnce))
}

// Refused returns when the refusal of a request that has shown no valid credential is to be written, or ctx, that of the
// request, has ended. The refusals of a connection have a rate, however many streams it has, and one of a guess, a
// credential that is not known, is always delayed: clients that guess or repeat requests occupy no processor.
func Refused(ctx context.Context, guess bool) {
	if of, is := ctx.Value(refusalsKey{}).(*rate.Limiter); is {
		after := refusedWithin
		if of.Tokens() > -float64(refusedWithin/refusedAfter) { // requests that end while they wait keep their turns
			after = min(after, of.Reserve().Delay())
		}
		wake.Sleep(ctx, after)
	}
	if guess {
		wake.Sleep(ctx, refusedAfter)
	}
}
