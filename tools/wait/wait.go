// Package wait waits for what tests and benchmarks bring about.
package wait

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// final is an error that waiting does not mend.
type final struct{ error }

// Final returns an error of a check that Until returns at once, since waiting does not mend it.
func Final(err error) error { return final{err} }

// Until calls check until it returns nil. After patience it returns the last error instead.
func Until(ctx context.Context, patience time.Duration, what string, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		err := check()
		if err == nil {
			return nil
		}
		if last, is := errors.AsType[final](err); is {
			return last.error
		}
		if For(ctx, pause) != nil {
			return fmt.Errorf("%s: not within %s: %w", what, patience, err)
		}
	}
}

// For waits for a while, or until ctx ends, and returns why that is then.
func For(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// Eventually fails a test unless check finds nothing wrong before there is no more patience.
func Eventually(t testing.TB, patience time.Duration, what string, check func() error) {
	t.Helper()
	// Not the test's context: it has ended where a test cleans up.
	if err := Until(context.Background(), patience, what, check); err != nil {
		t.Fatal(err)
	}
}

// WhileWorking fails a test unless check finds nothing wrong before work has stayed the same for idle:
// a busy machine has any time for the rest. The timeout of go test bounds the whole.
func WhileWorking[W comparable](t testing.TB, idle time.Duration, what string, work func() W, check func() error) {
	t.Helper()
	last, since := work(), time.Now()
	for {
		err := check()
		if err == nil {
			return
		}
		if now := work(); now != last {
			last, since = now, time.Now()
		} else if time.Since(since) > idle {
			t.Fatalf("%s: nothing was done for %s, and: %v", what, idle, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Holds fails a test unless something holds within a minute.
func Holds(t testing.TB, what string, holds func() bool) {
	t.Helper()
	Eventually(t, time.Minute, what, func() error {
		if !holds() {
			return errors.New("it does not hold")
		}
		return nil
	})
}
