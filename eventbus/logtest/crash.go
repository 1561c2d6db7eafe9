package logtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/wake"
)

// crash kills the store three times under a writer that goes on, and checks that
// a follower sees each recorded fact once and in order, within one epoch.
func crash(t *testing.T, s Store) {
	const facts = 300
	log, begin := begun(t, s)
	f := mustFollow(t, s.Open(t))
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() {
		for n := range facts {
			if err := persist(timed(t), log, Fact(fmt.Sprint("k", n), n)); err != nil {
				t.Errorf("fact %d: %v", n, err)
				return
			}
		}
	})
	for n := 0; n < facts; {
		for _, r := range until(t, f, uint64(n+1)) {
			if r.Pos != (event.Pos{Epoch: begin.Epoch, Seq: uint64(n + 1)}) || number(r.Fact) != n {
				t.Fatalf("fact %d is %d at %v", n, number(r.Fact), r.Pos)
			}
			if n%100 == 50 {
				s.Crash(t)
			}
			n++
		}
	}
}

// persist appends until it is certain that the fact is in the log, as a writer
// must after an error that leaves it open.
func persist(ctx context.Context, log eventbus.Log, f event.Fact) error {
	err := appendAgain(ctx, log, f, 0)
	for errors.Is(err, eventbus.ErrConflict) && ctx.Err() == nil {
		if r, _, readErr := log.Newest(ctx, f.Key); readErr == nil {
			if event.Same(r.Fact, f) {
				return nil
			}
			return fmt.Errorf("a conflict without a rival: %v", r)
		}
	}
	return err
}

// appendAgain appends until there is an answer that leaves nothing open.
func appendAgain(ctx context.Context, log eventbus.Log, f event.Fact, last uint64) error {
	for {
		_, err := log.Append(ctx, f, last)
		for _, final := range []error{nil, eventbus.ErrConflict, eventbus.ErrEpochEnded, eventbus.ErrRefused} {
			if errors.Is(err, final) {
				return err
			}
		}
		if !wake.Sleep(ctx, 5*time.Millisecond) {
			return fmt.Errorf("%w; the last error: %w", ctx.Err(), err)
		}
	}
}
