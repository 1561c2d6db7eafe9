// Package wake has the ways to wait: for a change of something that others guard, and for a while.
package wake

import (
	"context"
	"sync"
	"time"
)

// Signal wakes all its waiters. The zero value is ready; it is safe for concurrent use. Nothing
// is queued: a woken goroutine reads the current state.
type Signal struct {
	mu   sync.Mutex
	next chan struct{} // nil while there is no waiter
}

// Next returns a channel that the next Send closes. Take it before you read the state that can
// change, or under the lock that guards it, so that no change is missed in between.
func (s *Signal) Next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = make(chan struct{})
	}
	return s.next
}

// Send wakes all who wait.
func (s *Signal) Send() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil {
		close(s.next)
		s.next = nil
	}
}

// Until waits until done, which it asks at once and after each Send, and otherwise returns
// ctx's error. done may take the lock under which Send is called.
func (s *Signal) Until(ctx context.Context, done func() bool) error {
	for {
		next := s.Next()
		if done() {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Sleep waits for d and returns true, or returns false as soon as ctx ends.
func Sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// Notify sends to a channel with room for one value, unless it has one: its reader is woken once for many.
func Notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Sooner returns the shorter of two delays, of which zero is none.
func Sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Keep calls a function until ctx ends: again after a pause, or soon after an error, which is reported when its text changes.
func Keep(ctx context.Context, soon, again time.Duration, do func(context.Context) error, report func(error)) {
	said := ""
	for {
		wait := again
		if err := do(ctx); err == nil {
			said = ""
		} else if wait = soon; err.Error() != said && ctx.Err() == nil {
			report(err)
			said = err.Error()
		}
		if !Sleep(ctx, wait) {
			return
		}
	}
}
