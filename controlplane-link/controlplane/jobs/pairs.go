package jobs

import (
	"context"
	"sync"
	"time"

	"switchyard.dev/eventbus/wake"
)

const (
	// openWithin is how long the end of a stream waits for its reader to open the other one.
	openWithin = time.Second
	// togetherWithin is how long it waits for the other one to be written.
	togetherWithin = time.Minute
)

// pairs lets streams of one reader and job end together: the published client ends both when it sees the end of one.
type pairs struct {
	mu   sync.Mutex
	open map[string]*pair
}

// pair are the open streams of one reader and job.
type pair struct {
	open, written int
}

// enter adds a stream. leave waits until all that are open are written, or the reader has gone.
func (p *pairs) enter(key string) (leave func(context.Context)) {
	began := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == nil {
		p.open = map[string]*pair{}
	}
	if p.open[key] == nil {
		p.open[key] = &pair{}
	}
	of := p.open[key]
	of.open++
	return func(ctx context.Context) {
		p.mu.Lock()
		of.written++
		p.mu.Unlock()
		written := time.Now()
		for !p.together(of, began) && time.Since(written) < togetherWithin && wake.Sleep(ctx, firstPause/4) {
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if of.open, of.written = of.open-1, of.written-1; of.open == 0 {
			delete(p.open, key)
		}
	}
}

// together reports whether all streams are written.
func (p *pairs) together(of *pair, began time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return of.open == of.written && (of.open > 1 || time.Since(began) > openWithin)
}
