package server

import (
	"context"
	"slices"
	"sync"
	"time"
)

// turns lets those that wait continue, at most one in each interval. The newest is first: when
// more come than can be served, the oldest have been given up by their clients.
type turns struct {
	interval time.Duration
	arrived  chan struct{}

	mu      sync.Mutex
	waiting []chan struct{}
}

func newTurns(interval time.Duration) *turns {
	return &turns{interval: interval, arrived: make(chan struct{}, 1)}
}

// run serves those that wait until ctx ends.
func (t *turns) run(ctx context.Context) {
	ticker := time.NewTicker(t.interval)
	defer ticker.Stop()
	for {
		select {
		case <-t.arrived:
		case <-ctx.Done():
			return
		}
		for next := t.pop(); next != nil; next = t.pop() {
			close(next)
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
		}
	}
}

// pop returns the newest that waits; nil: none does.
func (t *turns) pop() chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) == 0 {
		return nil
	}
	last := len(t.waiting) - 1
	next := t.waiting[last]
	t.waiting = t.waiting[:last]
	return next
}

// wait waits for its turn, and returns the error of ctx if that ends first.
func (t *turns) wait(ctx context.Context) error {
	turn := make(chan struct{})
	t.mu.Lock()
	t.waiting = append(t.waiting, turn)
	t.mu.Unlock()
	select {
	case t.arrived <- struct{}{}:
	default:
	}
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		t.mu.Lock()
		defer t.mu.Unlock()
		if i := slices.Index(t.waiting, turn); i >= 0 {
			t.waiting = slices.Delete(t.waiting, i, i+1)
		}
		return ctx.Err()
	}
}
