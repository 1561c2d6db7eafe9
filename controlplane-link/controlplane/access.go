package controlplane

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/credentials"
	"switchyard.dev/eventbus/wake"
)

// keys authenticates users of the proxy, by their API keys and by the bearer tokens of their sessions.
// A key reaches all clusters of its organisation.
type keys struct {
	store   *store.Store
	changed wake.Signal // of API keys and sessions
}

const (
	// checkAfter is when the key of a request is checked again, since it can have been deleted after the first check;
	// short requests need one check.
	checkAfter = time.Second
	// checkEvery is for tokens that expire, and for changes of roles.
	checkEvery = 30 * time.Second
)

// watchKeys notices changes of API keys and sessions until ctx ends.
func (m *Main) watchKeys(ctx context.Context) error {
	m.store.Watch(ctx, func(c store.Change) {
		if slices.Contains([]store.Kind{store.APIKey, store.Login, store.Everything}, c.Kind) {
			m.keys.changed.Send()
		}
	})
	<-ctx.Done()
	return nil
}

// Find implements users.Keys.
func (k *keys) Find(ctx context.Context, sent string) (*credentials.Key, error) {
	if sent == "" {
		return nil, nil
	}
	return k.find(ctx, model.DigestOf(sent))
}

func (k *keys) find(ctx context.Context, d model.Digest) (*credentials.Key, error) {
	c, err := k.store.CallerOf(ctx, d)
	if errors.Is(err, model.ErrNotFound) {
		c, err = k.holder(ctx, d)
	}
	isUser := c.Principal.Kind == model.KindUser || c.Principal.Kind == model.KindServiceAccount
	switch {
	case errors.Is(err, model.ErrNotFound), err == nil && (!isUser || c.Role == ""):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &credentials.Key{Organisation: c.Org, User: cmp.Or(c.Principal.Name, c.Principal.ID), Roles: []string{string(c.Role)}, Clusters: []string{"*"}, Sum: d}, nil
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
		now, err := k.find(ctx, had.Sum)
		if err == nil && (now == nil || now.User != had.User || !slices.Equal(now.Roles, had.Roles)) {
			return
		}
	}
}
