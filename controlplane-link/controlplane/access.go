package controlplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"switchyard.dev/controlplane-link/controlplane/checks"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/credentials"
	"switchyard.dev/eventbus/wake"
)

// Keys authenticates users of the proxy, by their API keys and by the bearer tokens of their sessions.
// A key reaches all clusters of its organisation.
type Keys struct {
	logger *slog.Logger
	store  *store.Store
	checks *checks.Checks
	found  singleflight.Group // checks that are under way
	// changed is of API keys and sessions, and changes counts it.
	changed wake.Signal
	changes atomic.Uint64
}

const (
	// checkAfter is when the key of a request is checked again, since it can have been deleted after the first check;
	// short requests need one check.
	checkAfter = time.Second
	// findWithin bounds a check.
	findWithin = 5 * time.Second
	// checkEvery is for tokens that expire, and for changes of roles.
	checkEvery = 30 * time.Second
)

// NewKeys returns the users of a store. They are checked again after changes that Watch notices.
func NewKeys(s *store.Store, logger *slog.Logger) *Keys {
	return &Keys{logger: logger, checks: checks.New(s), store: s}
}

// Watch notices changes of API keys and sessions until ctx ends, and returns nil.
func (k *Keys) Watch(ctx context.Context) error {
	k.store.Watch(ctx, func(c store.Change) {
		if slices.Contains([]store.Kind{store.APIKey, store.Login, store.Everything}, c.Kind) {
			k.change()
		}
	})
	<-ctx.Done()
	return nil
}

// change has the keys checked again.
func (k *Keys) change() {
	k.changes.Add(1)
	k.changed.Send()
}

// Find implements users.Keys.
func (k *Keys) Find(ctx context.Context, sent, from string) (*credentials.Key, error) {
	if sent == "" {
		return nil, nil
	}
	return k.FindDigest(ctx, model.DigestOf(sent), from)
}

// Changes implements access.Keys.
func (k *Keys) Changes() uint64 { return k.changes.Load() }

// FindDigest implements access.Keys. Callers at the same time share a check, unless it began before a change: it may have
// read the former state.
func (k *Keys) FindDigest(ctx context.Context, d model.Digest, from string) (*credentials.Key, error) {
	found, err, _ := k.found.Do(fmt.Sprintf("%d %x", k.changes.Load(), d), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), findWithin) // it is for the others as well
		defer cancel()
		now := time.Now().UTC()
		c, err := k.checks.Caller(ctx, d, "", now)
		if err == nil && c.Role == "" {
			err = model.ErrNotFound
		}
		if err != nil {
			return nil, err
		}
		if from != "" {
			k.checks.Use(ctx, c, now, from, k.logger)
		}
		return &credentials.Key{Organisation: c.Org, User: cmp.Or(c.Principal.Name, c.Principal.ID), Roles: []string{string(c.Role)}, Clusters: []string{"*"}, Sum: d}, nil
	})
	if errors.Is(err, model.ErrNotFound) {
		return nil, nil
	}
	key, _ := found.(*credentials.Key)
	return key, err
}

// WhileValid implements users.Keys.
func (k *Keys) WhileValid(ctx context.Context, had *credentials.Key, _ string) {
	timer := time.NewTimer(checkAfter)
	defer timer.Stop()
	var changed <-chan struct{}
	for {
		select {
		case <-timer.C:
		case <-changed:
		case <-ctx.Done():
			return
		}
		timer.Reset(checkEvery)
		changed = k.changed.Next()
		now, err := k.FindDigest(ctx, had.Sum, "")
		if err != nil {
			timer.Reset(checkAfter)
		} else if now == nil || now.User != had.User || !slices.Equal(now.Roles, had.Roles) {
			return
		}
	}
}
