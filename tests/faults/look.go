package faults

import (
	"context"
	"errors"
	"os"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/tools/wait"
)

// beginWith begins a log, and tries again while the connection is being made.
func beginWith(ctx context.Context, log eventbus.Log, known event.Mark) (event.Mark, error) {
	for {
		mark, err := log.Begin(ctx, known)
		if err == nil || final(err) || ctx.Err() != nil {
			return mark, err
		}
		rest(ctx)
	}
}

// lostOf counts which acknowledged events the bus no longer has. An error means
// that it could not be found out.
func lostOf(ctx context.Context, bus *Bus, ledger *Ledger, scratch string) (int, error) {
	log, conn, err := bus.Open(scratch)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	for {
		events, err := contents(ctx, log, ledger.Tip())
		if err == nil || final(err) {
			// A log that does not verify, or is another one, counts with its content.
			return ledger.Lost(events), nil
		}
		if ctx.Err() != nil {
			return 0, errors.Join(err, ctx.Err())
		}
		rest(ctx)
	}
}

// discard removes a directory of the scratch directory, which is removed with the namespace
// regardless of its content.
func discard(dir string) { _ = os.RemoveAll(dir) }

// until waits until something holds.
func until(ctx context.Context, holds func() bool) error {
	for !holds() {
		if err := wait.For(ctx, 2*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}
