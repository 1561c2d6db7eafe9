package store

import (
	"context"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store/database"
)

func scanAPIKey(r database.Row) (k model.APIKey, err error) {
	return k, r.Scan(&k.ID, &k.Org, &k.Owner.Kind, &k.Owner.ID, &k.Description, &k.Masked, &k.Digest, &k.CreatedAt, &k.LastUsedAt)
}

// CreateAPIKey adds an API key to a user or a service account.
func (s *Store) CreateAPIKey(ctx context.Context, k model.APIKey, ev model.Event) error {
	return s.write(ctx, k.Org, ev, func(t *tx) {
		if k.Owner.Kind == model.KindUser {
			t.exists(user(k.Owner.ID), selectUser, k.Org, k.Owner.ID)
		} else {
			t.exists(serviceAccount(k.Owner.ID), selectServiceAccount, k.Org, k.Owner.ID)
		}
		t.insertCredential(thing{what: "API key", name: k.ID}, k, apiKeys)
	})
}

// insertCredential adds a credential to its owner.
func (t *tx) insertCredential(o thing, k model.APIKey, most maximum) {
	t.insert(o, []any{k.Org, k.Owner.Kind, k.Owner.ID}, []maximum{most}, insertCredential,
		k.Digest, k.ID, k.Org, k.Owner.Kind, k.Owner.ID, k.Description, k.Masked, k.CreatedAt)
}

// APIKeys returns the API keys of a user or a service account, by their creation.
func (s *Store) APIKeys(ctx context.Context, org string, owner model.Principal) ([]model.APIKey, error) {
	return listed(ctx, s, func(k model.APIKey) (time.Time, string) { return k.CreatedAt, k.ID },
		scanAPIKey, selectAPIKeys, org, owner.Kind, owner.ID)
}

// DeleteAPIKey deletes an API key of a user or a service account.
func (s *Store) DeleteAPIKey(ctx context.Context, org string, owner model.Principal, id string, ev model.Event) error {
	key := thing{"API key", id, Change{Kind: APIKey, Org: org, Name: id}}
	return s.set(ctx, org, ev, key, deleteCredential, org, owner.Kind, owner.ID, id)
}

// CallerOf returns the client that shows an API key or a cluster token; model.ErrNotFound: it is not
// known, or was deleted.
func (s *Store) CallerOf(ctx context.Context, d model.Digest) (model.Caller, error) {
	return database.One(ctx, s.db.Reads(), func(r database.Row) (c model.Caller, err error) {
		err = r.Scan(&c.Org, &c.Principal.Kind, &c.Principal.ID, &c.Principal.Name, &c.Role, &c.KeyID, &c.Masked)
		c.Method = model.MethodAPIKey
		if c.Principal.Kind == model.KindCluster {
			c.Method = model.MethodClusterToken
		}
		return c, err
	}, selectCaller, d)
}

// Used records the last use of an API key or a cluster token, and the address that it came from; empty: the
// last one stays.
func (s *Store) Used(ctx context.Context, id string, at time.Time, from string) error {
	_, err := s.db.Observe(ctx, touchCredential, id, at, from)
	return err
}

func clusterToken(id string) thing { return thing{what: "cluster token", name: id} }

func scanClusterToken(r database.Row) (k model.ClusterToken, err error) {
	return k, r.Scan(&k.ID, &k.Org, &k.Cluster, &k.Masked, &k.Digest, &k.CreatedAt, &k.LastConnectedAt, &k.LastConnectedIP)
}

// CreateClusterToken adds a token to a cluster.
func (s *Store) CreateClusterToken(ctx context.Context, k model.ClusterToken, ev model.Event) error {
	return s.write(ctx, k.Org, ev, func(t *tx) {
		t.exists(cluster(k.Cluster), selectCluster, k.Org, k.Cluster)
		owner := model.Principal{Kind: model.KindCluster, ID: k.Cluster}
		credential := model.APIKey{Org: k.Org, ID: k.ID, Owner: owner, Masked: k.Masked, Digest: k.Digest, CreatedAt: k.CreatedAt}
		t.insertCredential(clusterToken(k.ID), credential, clusterTokens)
	})
}

// ClusterToken returns a token of a cluster.
func (s *Store) ClusterToken(ctx context.Context, org, cluster, id string) (model.ClusterToken, error) {
	return get(ctx, s, clusterToken(id), scanClusterToken, selectClusterToken, org, cluster, id)
}

// ClusterTokens returns the tokens of a cluster, by their creation.
func (s *Store) ClusterTokens(ctx context.Context, org, cluster string) ([]model.ClusterToken, error) {
	return listed(ctx, s, func(k model.ClusterToken) (time.Time, string) { return k.CreatedAt, k.ID },
		scanClusterToken, selectClusterTokens, org, cluster)
}

// DeleteClusterToken deletes a token of a cluster, and ends the session of its agent.
func (s *Store) DeleteClusterToken(ctx context.Context, org, cluster, id string, ev model.Event) error {
	token := clusterToken(id)
	token.change = Change{Kind: ClusterToken, Org: org, Cluster: cluster, Name: id}
	return s.set(ctx, org, ev, token, deleteCredential, org, model.KindCluster, cluster, id)
}

// dropCredentials deletes all credentials of an owner.
func (t *tx) dropCredentials(what Kind, org string, owner model.Principal) {
	for _, id := range list(t, database.Column[string], deleteCredentialsOf, org, owner.Kind, owner.ID) {
		t.changed(Change{Kind: what, Org: org, Name: id})
	}
}

func scanDeviceLogin(r database.Row) (l model.DeviceLogin, err error) {
	return l, r.Scan(&l.Device, &l.UserCode, &l.CreatedAt, &l.ExpiresAt, &l.PolledAt, &l.Org, &l.UserID, &l.Denied, &l.Session, &l.Address, &l.Preview)
}

// CreateDeviceLogin adds a pending login; model.ErrExists: its user code is that of another one, or there
// are too many. It deletes those that expired before it was created.
func (s *Store) CreateDeviceLogin(ctx context.Context, l model.DeviceLogin) error {
	if _, err := s.db.Observe(ctx, deleteDeviceLogins, l.CreatedAt); err != nil {
		return err
	}
	n, err := s.db.Observe(ctx, insertDeviceLogin, l.Device, l.UserCode, l.CreatedAt, l.ExpiresAt, l.Address, l.Preview, maxDeviceLogins)
	if err == nil && n == 0 {
		return model.ErrExists
	}
	return err
}

// DeviceLogin returns the login of a device code.
func (s *Store) DeviceLogin(ctx context.Context, device model.Digest) (model.DeviceLogin, error) {
	return database.One(ctx, s.db.Reads(), scanDeviceLogin, selectDeviceLogin, device)
}

// DeviceLoginByCode returns the login of a user code.
func (s *Store) DeviceLoginByCode(ctx context.Context, code string) (model.DeviceLogin, error) {
	return database.One(ctx, s.db.Reads(), scanDeviceLogin, selectDeviceLoginByCode, code)
}

// PolledDeviceLogin records the time of a request for its token.
func (s *Store) PolledDeviceLogin(ctx context.Context, device model.Digest, at time.Time) error {
	_, err := s.db.Observe(ctx, pollDeviceLogin, device, at)
	return err
}

// DecideDeviceLogin accepts a pending login for a user of the organisation of the event, with the session of that user, or denies it.
func (s *Store) DecideDeviceLogin(ctx context.Context, device model.Digest, userID string, session model.Digest, denied bool, ev model.Event) error {
	return s.set(ctx, ev.Org, ev, thing{}, decideDeviceLogin, device, ev.Org, userID, denied, session)
}

// FinishDeviceLogin replaces an accepted login by a session; model.ErrNotFound: it is not accepted, or
// was finished.
func (s *Store) FinishDeviceLogin(ctx context.Context, device model.Digest, l model.Session, ev model.Event) error {
	return s.write(ctx, l.Org, ev, func(t *tx) {
		t.must(model.ErrNotFound, thing{}, deleteDeviceLogin, device, l.Org, l.UserID)
		t.insertSession(l)
	})
}

// insertSession adds a session, and deletes those that cannot be refreshed any more.
func (t *tx) insertSession(l model.Session) {
	t.exec(deleteLoginsBefore, l.CreatedAt)
	t.must(model.ErrExists, thing{}, insertLogin, l.Access, l.Refresh, l.Org, l.UserID, l.CreatedAt, l.ExpiresAt, l.RefreshBy)
}

func scanLogin(r database.Row) (l model.Session, err error) {
	return l, r.Scan(&l.Access, &l.Refresh, &l.Org, &l.UserID, &l.CreatedAt, &l.ExpiresAt, &l.RefreshBy)
}

// CreateSession adds the session of a login.
func (s *Store) CreateSession(ctx context.Context, l model.Session, ev model.Event) error {
	return s.write(ctx, l.Org, ev, func(t *tx) { t.insertSession(l) })
}

// Session returns the session of a bearer token. It may have expired.
func (s *Store) Session(ctx context.Context, access model.Digest) (model.Session, error) {
	return database.One(ctx, s.db.Reads(), scanLogin, selectLogin, access)
}

// SessionByRefresh returns the session of a refresh token. It may have expired.
func (s *Store) SessionByRefresh(ctx context.Context, refresh model.Digest) (model.Session, error) {
	return database.One(ctx, s.db.Reads(), scanLogin, selectLoginByRefresh, refresh)
}

// ReplaceSession replaces the session of a refresh token by another one; model.ErrNotFound: it was
// replaced, or has ended.
func (s *Store) ReplaceSession(ctx context.Context, refresh model.Digest, l model.Session, ev model.Event) error {
	return s.write(ctx, l.Org, ev, func(t *tx) {
		t.must(model.ErrNotFound, thing{change: Change{Kind: Login, Org: l.Org, Name: l.UserID}}, deleteLoginByRefresh, refresh)
		t.insertSession(l)
	})
}

// EndSession ends the session of a bearer token.
func (s *Store) EndSession(ctx context.Context, access model.Digest, ev model.Event) error {
	return s.set(ctx, ev.Org, ev, thing{change: Change{Kind: Login, Org: ev.Org, Name: ev.By.ID}}, deleteLogin, access)
}

// EndSessions ends all sessions of a user.
func (s *Store) EndSessions(ctx context.Context, org, userID string, ev model.Event) error {
	return s.write(ctx, org, ev, func(t *tx) {
		t.changed(Change{Kind: Login, Org: org, Name: userID})
		t.exec(deleteLoginsOf, org, userID)
	})
}
