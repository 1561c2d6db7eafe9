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
	"switchyard.dev/controlplane-link/controlplane/rest/stores"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/credentials"
	"switchyard.dev/eventbus/wake"
)

// keys authenticates users of the proxy, by their API keys and by the bearer tokens of their sessions.
// A key reaches all clusters of its organisation.
type keys struct {
	store  stores.Identities
	logger *slog.Logger
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

// watchKeys notices changes of API keys and sessions until ctx ends.
func (m *Main) watchKeys(ctx context.Context) error {
	m.store.Watch(ctx, func(c store.Change) {
		if slices.Contains([]store.Kind{store.APIKey, store.Login, store.Everything}, c.Kind) {
			m.keys.change()
		}
	})
	<-ctx.Done()
	return nil
}

// change has the keys checked again.
func (k *keys) change() {
	k.changes.Add(1)
	k.changed.Send()
}

// Find implements users.Keys.
func (k *keys) Find(ctx context.Context, sent string) (*credentials.Key, error) {
	if sent == "" {
		return nil, nil
	}
	return k.FindDigest(ctx, model.DigestOf(sent))
}

// Changes implements access.Keys.
func (k *keys) Changes() uint64 { return k.changes.Load() }

// FindDigest implements access.Keys. Callers at the same time share a check, unless it began
// before a change: it may have read the former state.
func (k *keys) FindDigest(ctx context.Context, d model.Digest) (*credentials.Key, error) {
	found, err, _ := k.found.Do(fmt.Sprintf("%d %x", k.changes.Load(), d), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), findWithin) // it is for the others as well
		defer cancel()
		c, err := k.check(ctx, d)
		if err != nil {
			return nil, err
		}
		if now := time.Now().UTC(); c.KeyID != "" && k.checks.Use(c.KeyID, now) {
			if err := k.store.Used(ctx, c.KeyID, now, ""); err != nil {
				k.logger.Warn("the last use of a credential was not recorded", "credential", c.KeyID, "error", err)
			}
		}
		return &credentials.Key{Organisation: c.Org, User: cmp.Or(c.Principal.Name, c.Principal.ID), Roles: []string{string(c.Role)}, Clusters: []string{"*"}, Sum: d}, nil
	})
	if errors.Is(err, model.ErrNotFound) {
		return nil, nil
	}
	key, _ := found.(*credentials.Key)
	return key, err
}

// check returns the user with an API key or a bearer token, once it is its turn; model.ErrNotFound: there is none.
func (k *keys) check(ctx context.Context, d model.Digest) (c model.Caller, err error) {
	leave, err := k.checks.Enter(ctx, d, time.Now())
	if err != nil {
		return c, err
	}
	valid := false
	defer func() { leave(valid) }()
	if c, err = k.store.CallerOf(ctx, d); errors.Is(err, model.ErrNotFound) {
		c, err = k.holder(ctx, d)
	}
	isUser := c.Principal.Kind == model.KindUser || c.Principal.Kind == model.KindServiceAccount
	if err == nil && (!isUser || c.Role == "") {
		err = model.ErrNotFound
	}
	valid = err == nil
	return c, err
}

// holder returns the user with a bearer token.
func (k *keys) holder(ctx context.Context, d model.Digest) (model.Caller, error) {
	s, err := k.store.Session(ctx, d)
	if err == nil && !time.Now().Before(s.ExpiresAt) {
		err = model.ErrNotFound
	}
	if err != nil {
		return model.Caller{}, err
	}
	u, err := k.store.User(ctx, s.Org, s.UserID)
	return model.Caller{Org: s.Org, Principal: model.Principal{Kind: model.KindUser, ID: u.ID, Name: u.Email}, Role: u.Role}, err
}

// WhileValid implements users.Keys.
func (k *keys) WhileValid(ctx context.Context, had *credentials.Key, _ string) {
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
		now, err := k.FindDigest(ctx, had.Sum)
		if err != nil {
			timer.Reset(checkAfter)
		} else if now == nil || now.User != had.User || !slices.Equal(now.Roles, had.Roles) {
			return
		}
	}
}
