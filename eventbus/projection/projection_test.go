package projection_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/projection"
)

const ms = time.Millisecond

// read is what one reading comes to.
type read struct {
	progress bool
	err      error
}

// run has a projection read so, and returns the waits after each and how often it forgot.
func run(t *testing.T, reads ...read) (waits []time.Duration, forgotten int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	n := 0
	err := projection.Projection{
		Read: func(context.Context) (bool, error) {
			if n == len(reads) {
				cancel()
				return false, context.Canceled
			}
			n++
			return reads[n-1].progress, reads[n-1].err
		},
		Forget: func() { forgotten++ },
		Away:   func(_ error, retryIn time.Duration) { waits = append(waits, retryIn) },
		Retry:  projection.Retry{Min: ms, Max: 4 * ms},
	}.Run(ctx)
	if err != nil || n != len(reads) {
		t.Fatalf("it ended with %v after %d of %d readings", err, n, len(reads))
	}
	return waits, forgotten
}

func TestWaitsGrowUntilSomethingIsRead(t *testing.T) {
	away := read{err: errors.New("the bus is gone")}
	waits, forgotten := run(t, away, away, away, away, read{progress: true, err: away.err}, away)
	if diff := cmp.Diff([]time.Duration{ms, 2 * ms, 4 * ms, 4 * ms, ms, 2 * ms}, waits); diff != "" {
		t.Errorf("the waits (-want +got):\n%s", diff)
	}
	if forgotten != 0 {
		t.Error("what was folded is forgotten while the log is away")
	}
}

func TestANewLogDropsTheFoldedState(t *testing.T) {
	for _, ends := range []error{eventbus.ErrEpochEnded, eventbus.ErrGone, eventbus.ErrDamaged} {
		if _, forgotten := run(t, read{true, fmt.Errorf("read on: %w", ends)}, read{err: eventbus.ErrNoLog}); forgotten != 1 {
			t.Errorf("%v: forgotten %d times", ends, forgotten)
		}
	}
}

func TestRunEndsWhileItWaits(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	forever := projection.Projection{
		Read: func(context.Context) (bool, error) { return false, eventbus.ErrNoLog },
		Away: func(error, time.Duration) { cancel() }, Retry: projection.Retry{Min: time.Hour, Max: time.Hour},
	}
	if err := forever.Run(ctx); err != nil {
		t.Error(err)
	}
}

func TestRetry(t *testing.T) {
	for _, tt := range []struct {
		set, want projection.Retry
		bad       bool
	}{
		{set: projection.Retry{}, want: projection.Retry{Min: 2, Max: 8}},
		{set: projection.Retry{Min: 9}, want: projection.Retry{Min: 9, Max: 9}},
		{set: projection.Retry{Max: 5}, want: projection.Retry{Min: 2, Max: 5}},
		{set: projection.Retry{Max: 1}, want: projection.Retry{Min: 2, Max: 1}, bad: true},
		{set: projection.Retry{Min: -1}, want: projection.Retry{Min: -1, Max: 8}, bad: true},
	} {
		got := tt.set.Or(2, 8)
		if got != tt.want || (got.Validate() != nil) != tt.bad {
			t.Errorf("%v: got %v, %v", tt.set, got, got.Validate())
		}
	}
}
