// Package registry has the state of the control plane that its replicas share: which agent has the
// session of each cluster, at which replica and under which epoch, and the cluster tokens. The
// implementation here is in memory, for one process.
package registry

import (
	"cmp"
	"context"
	"crypto/sha256"
	"maps"
	"slices"
	"sync"

	"switchyard.dev/controlplane-link/admission"
)

// Cluster names a cluster of an organisation.
type Cluster struct{ Organisation, Name string }

// Registry has an entry for each cluster. It is safe for concurrent use.
type Registry interface {
	// Get returns the entry of a cluster; the zero Entry where there is none.
	Get(ctx context.Context, c Cluster) (admission.Entry, error)
	// Swap replaces the entry that Get returned. It returns false if that has changed.
	Swap(ctx context.Context, c Cluster, old, next admission.Entry) (bool, error)
	// Watch calls changed with the entry of a cluster after each new epoch, until ctx ends. It does not block,
	// and changed must not.
	Watch(ctx context.Context, changed func(Cluster, admission.Entry))
}

// Token is a cluster token, without its value.
type Token struct {
	ID string
	Cluster
}

// Tokens are the cluster tokens. It is safe for concurrent use.
type Tokens interface {
	// Find returns the token with a value; false: it is not known, or was revoked.
	Find(ctx context.Context, value string) (Token, bool, error)
	// Valid reports whether there is a token with an ID.
	Valid(ctx context.Context, id string) (bool, error)
	// Bind binds a token to the UID of a cluster, unless it is bound, and returns the UID that it is
	// bound to.
	Bind(ctx context.Context, id, uid string) (string, error)
	// Watch calls revoked with the ID of each token that is revoked, until ctx ends. It does not
	// block, and revoked must not.
	Watch(ctx context.Context, revoked func(id string))
}

// watchers are functions that are called for each change.
type watchers[T any] struct{ all sync.Map }

func (w *watchers[T]) add(ctx context.Context, do func(T)) {
	key := &do
	w.all.Store(key, do)
	context.AfterFunc(ctx, func() { w.all.Delete(key) })
}

func (w *watchers[T]) notify(t T) {
	w.all.Range(func(_, do any) bool { do.(func(T))(t); return true })
}

// Memory is a Registry in memory. The zero value is empty.
type Memory struct {
	mu       sync.Mutex
	entries  map[Cluster]admission.Entry
	watchers watchers[Cluster]
}

// Get implements Registry.
func (m *Memory) Get(_ context.Context, c Cluster) (admission.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.entries[c], nil
}

// Swap implements Registry.
func (m *Memory) Swap(_ context.Context, c Cluster, old, next admission.Entry) (bool, error) {
	m.mu.Lock()
	if !m.entries[c].Equal(old) {
		m.mu.Unlock()
		return false, nil
	}
	if m.entries == nil {
		m.entries = map[Cluster]admission.Entry{}
	}
	m.entries[c] = next
	m.mu.Unlock()
	if next.Epoch > old.Epoch {
		m.watchers.notify(c)
	}
	return true, nil
}

// Watch implements Registry.
func (m *Memory) Watch(ctx context.Context, changed func(Cluster, admission.Entry)) {
	m.watchers.add(ctx, func(c Cluster) { now, _ := m.Get(ctx, c); changed(c, now) })
}

// MemoryTokens are Tokens in memory, by the SHA-256 of their values. The zero value is empty.
type MemoryTokens struct {
	mu       sync.Mutex
	tokens   map[[sha256.Size]byte]Token
	bound    map[string]string // the UID that a token, by its ID, is bound to
	watchers watchers[string]
}

// Set replaces all tokens, by the SHA-256 of their values. Those that are not among them, or are of
// another cluster there, are revoked.
func (m *MemoryTokens) Set(all map[[sha256.Size]byte]Token) {
	m.mu.Lock()
	former := m.tokens
	m.tokens = maps.Clone(all)
	m.mu.Unlock()
	for sum, t := range former {
		if all[sum] != t {
			m.watchers.notify(t.ID)
		}
	}
}

// Find implements Tokens.
func (m *MemoryTokens) Find(_ context.Context, value string) (Token, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t, is := m.tokens[sha256.Sum256([]byte(value))]
	return t, is, nil
}

// Valid implements Tokens.
func (m *MemoryTokens) Valid(_ context.Context, id string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(slices.Collect(maps.Values(m.tokens)), func(t Token) bool { return t.ID == id }), nil
}

// Bind implements Tokens.
func (m *MemoryTokens) Bind(_ context.Context, id, uid string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.bound == nil {
		m.bound = map[string]string{}
	}
	m.bound[id] = cmp.Or(m.bound[id], uid)
	return m.bound[id], nil
}

// Watch implements Tokens.
func (m *MemoryTokens) Watch(ctx context.Context, revoked func(id string)) {
	m.watchers.add(ctx, revoked)
}
