// Package checks bounds checks of credentials, which read the store: clients that guess credentials wait for each
// other, and not those with a valid credential for them.
package checks

import (
	"context"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"switchyard.dev/controlplane-link/controlplane/model"
)

const (
	// maxKnown is how many credentials are checked at once that were valid lately, and maxUnknown how many others. The
	// store in SQLite has four readers.
	maxKnown, maxUnknown = 32, 2
	// renewedAfter is how often it is noted that a credential is valid or used; for twice as long it was lately.
	renewedAfter = 5 * time.Minute
)

// Checks bounds checks of credentials. Make one with New; it is safe for concurrent use.
type Checks struct {
	known, unknown *semaphore.Weighted
	mu             sync.Mutex
	seen           map[any]time.Time // digests of valid credentials, and the IDs of API keys that were used
}

// New returns Checks.
func New() *Checks {
	return &Checks{known: semaphore.NewWeighted(maxKnown), unknown: semaphore.NewWeighted(maxUnknown), seen: map[any]time.Time{}}
}

// Enter waits until a credential can be checked. The caller then calls leave with whether it is valid.
func (c *Checks) Enter(ctx context.Context, d model.Digest, now time.Time) (leave func(valid bool), err error) {
	turns := c.unknown
	c.mu.Lock()
	if now.Sub(c.seen[d]) < 2*renewedAfter {
		turns = c.known
	}
	c.mu.Unlock()
	if err := turns.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	return func(valid bool) {
		turns.Release(1)
		if valid {
			c.first(d, now)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.seen, d)
	}, nil
}

// Use reports whether the use of an API key is to be recorded: it was not for some minutes.
func (c *Checks) Use(id string, now time.Time) bool { return c.first(id, now) }

// first notes a digest or an ID, and reports whether it was not noted for some minutes.
func (c *Checks) first(of any, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.seen[of]) < renewedAfter {
		return false
	}
	maps.DeleteFunc(c.seen, func(_ any, at time.Time) bool { return now.Sub(at) >= 2*renewedAfter })
	c.seen[of] = now
	return true
}
