// Package wake wakes those who wait for a change of something that others guard.
package wake

import (
	"context"
	"sync"
)

// Signal wakes everybody who waits for it. The zero value is ready; it is safe for
// concurrent use. Nothing is queued: whoever wakes looks at what there is.
type Signal struct {
	mu   sync.Mutex
	next chan struct{} // nil while nobody waits
}

// Next returns a channel that the next Send closes. Take it before you look at what may
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
