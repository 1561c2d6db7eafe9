package endpoints

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"

	"switchyard.dev/controlplane-link/preview/label"
)

// Cache finds endpoints as Find. One that is routed is read again after Changed, and after foundFor: the notification of
// an observation can be lost. It is safe for concurrent use. Make one with NewCache.
type Cache struct {
	store   Store
	changes atomic.Uint64
	found   *cache.LRUExpireCache // of Endpoint, by place
}

// place is where an endpoint is searched, after a number of changes: a read that began before a change is not used after it.
type place struct {
	changes uint64
	org     string
	label.Label
}

const foundFor, maxFound = time.Second, 4096

// NewCache returns a Cache of the endpoints in a store.
func NewCache(s Store) *Cache { return &Cache{store: s, found: cache.NewLRUExpireCache(maxFound)} }

// Changed is called after a change of any sandbox or route group, or of its status, or if notifications were lost.
func (c *Cache) Changed() { c.changes.Add(1) }

// Find returns the endpoint of an organisation with a label, as Find.
func (c *Cache) Find(ctx context.Context, org string, l label.Label) (Endpoint, error) {
	at := place{c.changes.Load(), org, l}
	if e, is := c.found.Get(at); is {
		return e.(Endpoint), nil
	}
	e, err := Find(ctx, c.store, org, l)
	if err == nil && e.Unrouted() == "" {
		c.found.Add(at, e, foundFor)
	}
	return e, err
}
