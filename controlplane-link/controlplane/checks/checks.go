// Package checks bounds checks of credentials, which read the store: clients that guess credentials wait for each
// other, and not those with a valid credential for them.
package checks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
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

// Identities are the credentials in a store.
type Identities interface {
	// CallerOf returns the client with an API key or a cluster token.
	CallerOf(ctx context.Context, secret model.Digest) (model.Caller, error)
	// Session returns the session of a bearer token. It may have expired.
	Session(ctx context.Context, access model.Digest) (model.Session, error)
	User(ctx context.Context, org, id string) (model.User, error)
	// Used records the last use of a credential, and its address.
	Used(ctx context.Context, id string, at time.Time, from string) error
}

// ErrExpired is a model.ErrNotFound of a bearer token that was valid.
var ErrExpired = fmt.Errorf("%w: the token has expired", model.ErrNotFound)

// Checks bounds checks of credentials. Make one with New; it is safe for concurrent use.
type Checks struct {
	of             Identities
	known, unknown *semaphore.Weighted
	mu             sync.Mutex
	seen           map[any]time.Time // digests of valid credentials, and the IDs of API keys that were used
}

// New returns Checks.
func New(of Identities) *Checks {
	return &Checks{of: of, known: semaphore.NewWeighted(maxKnown), unknown: semaphore.NewWeighted(maxUnknown), seen: map[any]time.Time{}}
}

// Caller returns the client with a credential, once it can be checked. by is the method that it was sent for; empty: an
// API key or a bearer token. model.ErrNotFound: it is not known, or is that of another method.
func (c *Checks) Caller(ctx context.Context, d model.Digest, by model.Method, now time.Time) (caller model.Caller, err error) {
	leave, err := c.Enter(ctx, d, now)
	if err != nil {
		return caller, err
	}
	defer func() { leave(err == nil) }()
	err = model.ErrNotFound
	if by != model.MethodBearer {
		caller, err = c.of.CallerOf(ctx, d)
	}
	switch isMissing := errors.Is(err, model.ErrNotFound); {
	case isMissing && (by == "" || by == model.MethodBearer):
		return c.holder(ctx, d, now)
	case err == nil && caller.Method != cmp.Or(by, model.MethodAPIKey):
		err = model.ErrNotFound
	}
	return caller, err
}

// holder returns the user with a bearer token.
func (c *Checks) holder(ctx context.Context, d model.Digest, now time.Time) (model.Caller, error) {
	s, err := c.of.Session(ctx, d)
	if err == nil && !now.Before(s.ExpiresAt) {
		err = ErrExpired
	}
	if err != nil {
		return model.Caller{}, err
	}
	u, err := c.of.User(ctx, s.Org, s.UserID)
	return u.Caller(), err
}

// Lately reports whether a credential was valid lately: its check does not wait for those of others.
func (c *Checks) Lately(d model.Digest, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return now.Sub(c.seen[d]) < 2*renewedAfter
}

// Enter waits until a credential can be checked. The caller then calls leave with whether it is valid.
func (c *Checks) Enter(ctx context.Context, d model.Digest, now time.Time) (leave func(valid bool), err error) {
	turns := c.unknown
	if c.Lately(d, now) {
		turns = c.known
	}
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

// Use records the use of an API key from an address, host:port, unless that was done some minutes ago. Without an
// address the last one stays. It logs an error.
func (c *Checks) Use(ctx context.Context, caller model.Caller, now time.Time, from string, logger *slog.Logger) {
	if caller.Method != model.MethodAPIKey || !c.first(caller.KeyID, now) {
		return
	}
	host, _, err := net.SplitHostPort(from)
	if err != nil {
		host = from
	}
	if err := c.of.Used(ctx, caller.KeyID, now, host); err != nil {
		logger.WarnContext(ctx, "The last use of a credential was not recorded.", "credential", caller.KeyID, "error", err)
	}
}

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
