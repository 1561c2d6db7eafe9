// Package background runs what a test needs beside itself: a server, a manager, a follower.
package background

import (
	"context"
	"sync"
	"testing"
	"time"
)

// patience is how long a part may take to end on a busy machine.
const patience = time.Minute

// Run runs a part until stop is called or the test ends. The test fails if the part ends
// before that, or with an error.
func Run(t testing.TB, part func(context.Context) error) (stop func()) {
	t.Helper()
	// Not the test's context, which ends before what the test cleans up.
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- part(ctx) }()
	stop = sync.OnceFunc(func() {
		early := len(ended) > 0
		cancel()
		select {
		case err := <-ended:
			if err != nil || early {
				t.Errorf("it ended with %v; before it was stopped: %v", err, early)
			}
		case <-time.After(patience):
			t.Errorf("it goes on %s after it was stopped", patience)
		}
	})
	t.Cleanup(stop)
	return stop
}
