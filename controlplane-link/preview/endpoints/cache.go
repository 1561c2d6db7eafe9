package endpoints

import (
	"context"
	"sync"
	"time"

	"switchyard.dev/controlplane-link/preview/label"
)

// Cache finds endpoints as Find. One that is routed is read again after Changed, and after foundFor: the notification of
// an observation can be lost. It is safe for concurrent use.
type Cache struct {
	Store Store

	mu      sync.Mutex
	changes int
	found   map[place]found
}

type place struct {
	org string
	label.Label
}

type found struct {
	Endpoint
	until time.Time
}

const foundFor, maxFound = time.Second, 4096

// Changed is called after a change of any sandbox or route group, or of its status, or if notifications were lost.
func (c *Cache) Changed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	c.found = nil
}

// Find returns the endpoint of an organisation with a label, as Find.
func (c *Cache) Find(ctx context.Context, org string, l label.Label) (Endpoint, error) {
	at, now := place{org, l}, time.Now()
	c.mu.Lock()
	f, changes := c.found[at], c.changes
	c.mu.Unlock()
	if now.Before(f.until) {
		return f.Endpoint, nil
	}
	e, err := Find(ctx, c.Store, org, l)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil || e.Unrouted() != "" || c.changes != changes { // the read can be of the former state
		return e, err
	}
	if c.found == nil || len(c.found) >= maxFound {
		c.found = map[place]found{}
	}
	c.found[at] = found{e, now.Add(foundFor)}
	return e, nil
}
