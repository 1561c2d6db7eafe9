package store

import (
	"context"
	"sync"
	"time"

	"switchyard.dev/controlplane-link/admission"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store/database"
	"switchyard.dev/controlplane-link/registry"
)

// Registry is the registry of the sessions of agents, in the store.
type Registry struct{ *Store }

// Tokens are the cluster tokens, in the store.
type Tokens struct {
	*Store
	// found has the IDs that Find has returned.
	found sync.Map
}

var (
	_ registry.Registry = Registry{}
	_ registry.Tokens   = &Tokens{}
)

type sessionOf struct {
	of    registry.Cluster
	entry admission.Entry
}

func scanSession(r database.Row) (s sessionOf, err error) {
	var epoch int64
	err = r.Scan(&s.of.Organisation, &s.of.Name, &epoch, &s.entry.Instance, &s.entry.Replica, &s.entry.Until, database.JSON{Of: &s.entry.Superseded})
	s.entry.Epoch = uint64(epoch) //nolint:gosec // it was one
	return s, err
}

// Get implements registry.Registry.
func (r Registry) Get(ctx context.Context, c registry.Cluster) (admission.Entry, error) {
	s, err := database.List(ctx, r.db.Reads(), scanSession, selectSession, c.Organisation, c.Name)
	if err != nil || len(s) == 0 {
		return admission.Entry{}, err
	}
	return s[0].entry, nil
}

// Swap implements registry.Registry.
func (r Registry) Swap(ctx context.Context, c registry.Cluster, old, next admission.Entry) (bool, error) {
	query, args := insertSession, append([]any{c.Organisation, c.Name}, entryValues(next)...)
	if !old.Equal(admission.Entry{}) {
		query, args = updateSession, append(args, entryValues(old)...)
	}
	swapped := false
	err := r.observe(ctx, func(t *tx) {
		swapped = t.exec(query, args...) == 1
		if swapped && (next.Epoch > old.Epoch || next.Until.Before(old.Until)) {
			t.changed(Change{Kind: AgentSession, Org: c.Organisation, Cluster: c.Name})
		}
	})
	return swapped && err == nil, err
}

// entryValues are the columns of an entry.
func entryValues(e admission.Entry) []any {
	return []any{int64(e.Epoch), e.Instance, e.Replica, e.Until, database.JSON{Of: e.Superseded}} //nolint:gosec // epochs count sessions
}

// Watch implements registry.Registry.
func (r Registry) Watch(ctx context.Context, changed func(registry.Cluster, admission.Entry)) {
	read := func(ctx context.Context) (map[registry.Cluster]admission.Entry, error) {
		all, err := database.List(ctx, r.db.Reads(), scanSession, selectSessions)
		entries := map[registry.Cluster]admission.Entry{}
		for _, s := range all {
			entries[s.of] = s.entry
		}
		return entries, err
	}
	follow(ctx, r.Store, AgentSession, read, func(old, now map[registry.Cluster]admission.Entry) {
		for c, e := range now {
			if e.Epoch > old[c].Epoch {
				changed(c, e)
			}
		}
	})
}

// Find implements registry.Tokens.
func (t *Tokens) Find(ctx context.Context, value string) (registry.Token, bool, error) {
	found, err := database.List(ctx, t.db.Reads(), scanToken, selectToken, model.DigestOf(value))
	if err != nil || len(found) == 0 {
		return registry.Token{}, false, err
	}
	t.found.Store(found[0].ID, true)
	return found[0], true, nil
}

func scanToken(r database.Row) (t registry.Token, err error) {
	return t, r.Scan(&t.ID, &t.Organisation, &t.Name)
}

// Valid implements registry.Tokens.
func (t *Tokens) Valid(ctx context.Context, id string) (bool, error) {
	found, err := database.List(ctx, t.db.Reads(), database.Column[string], selectTokenBound, id)
	return len(found) == 1, err
}

// Bind implements registry.Tokens.
func (t *Tokens) Bind(ctx context.Context, id, uid string) (string, error) {
	bound, err := get(ctx, t.Store, clusterToken(id), database.Column[string], selectTokenBound, id)
	if err != nil || bound != "" {
		return bound, err
	}
	if _, err := t.db.Observe(ctx, bindToken, id, uid); err != nil {
		return "", err
	}
	return get(ctx, t.Store, clusterToken(id), database.Column[string], selectTokenBound, id)
}

// Watch implements registry.Tokens.
func (t *Tokens) Watch(ctx context.Context, revoked func(id string)) {
	read := func(ctx context.Context) (map[string]bool, error) {
		all, err := database.List(ctx, t.db.Reads(), database.Column[string], selectTokenIDs)
		ids := map[string]bool{}
		for _, id := range all {
			ids[id] = true
		}
		return ids, err
	}
	reported := map[string]bool{}
	follow(ctx, t.Store, ClusterToken, read, func(old, now map[string]bool) {
		missing := func(id string) {
			if !now[id] && !reported[id] {
				reported[id] = true
				revoked(id)
			}
		}
		for id := range old {
			missing(id)
		}
		t.found.Range(func(id, _ any) bool { // created since the last read
			missing(id.(string))
			return true
		})
	})
}

// readAgainAfter is when a read of follow that has failed is repeated.
const readAgainAfter = time.Second

// follow reads at once, and again after each change of a kind, and reports both values, until ctx ends.
func follow[T any](ctx context.Context, s *Store, what Kind, read func(context.Context) (T, error), report func(old, now T)) {
	again := make(chan struct{}, 1)
	repeat := func() {
		select {
		case again <- struct{}{}:
		default: // it is read anyway
		}
	}
	s.Watch(ctx, func(c Change) {
		if c.Kind == what || c.Kind == Everything {
			repeat()
		}
	})
	known, err := read(ctx)
	if err != nil { // all of the first read that succeeds counts as new
		repeat()
	}
	go func() {
		for {
			select {
			case <-again:
			case <-ctx.Done():
				return
			}
			now, err := read(ctx)
			if err != nil {
				time.AfterFunc(readAgainAfter, repeat)
				continue
			}
			report(known, now)
			known = now
		}
	}()
}
