package web

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/controlplane-link/admission"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/registry"
)

// Pauses between two reads of an organisation and of a cluster, how long a read is used if nothing changes, and what bounds
// one: a page without the report of a cluster is better than none.
const (
	readGap, readFor, readWithin = 50 * time.Millisecond, 10 * time.Second, 10 * time.Second
	reportFor, reportWithin      = time.Second, 3 * time.Second
	// keepFor is how long a value takes memory.
	keepFor = time.Minute
)

// shared has values that are read once for all requests that need them at the same time. The zero value is empty.
type shared[T any] struct {
	mu  sync.Mutex
	all map[string]*cell[T]
}

type cell[T any] struct {
	mu sync.Mutex
	of T
	at time.Time // zero: it was not read
}

// get returns the value of a key. read returns the one to use: the last one, which was read at a time, or a new one.
func (s *shared[T]) get(key string, read func(last T, at time.Time) (T, time.Time, error)) (T, error) {
	s.mu.Lock()
	if s.all == nil {
		s.all = map[string]*cell[T]{}
	}
	c := s.all[key]
	if c == nil {
		c = &cell[T]{}
		s.all[key] = c
		time.AfterFunc(keepFor, func() { s.drop(key) })
	}
	s.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	of, at, err := read(c.of, c.at)
	if err == nil {
		c.of, c.at = of, at
	}
	return of, err
}

// drop drops the value of a key; it is read again if it is needed.
func (s *shared[T]) drop(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, key)
}

// snapshot has the rows of an organisation.
type snapshot struct {
	revision   string
	clusters   []model.Cluster
	sessions   map[string]admission.Entry // by cluster
	sandboxes  []model.Sandbox
	byName     map[string]int // of sandboxes
	groups     []model.RouteGroup
	candidates []model.Candidate
}

// snapshot returns the rows of an organisation. All pages that are open share one read for each revision.
func (h *Handler) snapshot(org string) (*snapshot, error) {
	return h.snapshots.get(org, func(last *snapshot, at time.Time) (*snapshot, time.Time, error) {
		revision, _ := h.streams.Revision(org)
		if last != nil && last.revision == revision && time.Since(at) < readFor {
			return last, at, nil
		}
		time.Sleep(min(readGap, readGap-time.Since(at)))
		ctx, cancel := context.WithTimeout(context.Background(), readWithin) // it is for other requests as well
		defer cancel()
		now, read := &snapshot{sessions: map[string]admission.Entry{}}, time.Now()
		now.revision, _ = h.streams.Revision(org)
		return now, read, now.read(ctx, h.Store, org)
	})
}

// read reads the rows.
func (s *snapshot) read(ctx context.Context, from *store.Store, org string) (err error) {
	if s.clusters, err = from.Clusters(ctx, org); err != nil {
		return err
	}
	for _, c := range s.clusters {
		if s.sessions[c.Name], err = (store.Registry{Store: from}).Get(ctx, registry.Cluster{Organisation: org, Name: c.Name}); err != nil {
			return err
		}
	}
	if s.sandboxes, err = from.Sandboxes(ctx, org); err != nil {
		return err
	}
	s.candidates, s.byName = model.Candidates(s.sandboxes), map[string]int{}
	for i, o := range s.sandboxes {
		s.byName[o.Name] = i
	}
	s.groups, err = from.RouteGroups(ctx, org)
	return err
}

// reader returns the reader of a cluster with the rights of a person. It is kept for a while: each new one has connections
// of its own, and asks the cluster for its kinds.
func (h *Handler) reader(ctx context.Context, org, cluster string, by model.Author) (client.Reader, error) {
	return h.readers.get(strings.Join([]string{org, cluster, by.ID, by.Name, string(by.Role)}, "/"), func(last client.Reader, at time.Time) (client.Reader, time.Time, error) {
		if last != nil {
			return last, at, nil
		}
		now, err := h.Live.Reader(ctx, org, cluster, by)
		return now, time.Now(), err
	})
}

// named returns the value of a name, in a path or in a row.
func named[T any](all []T, name string, of func(T) string) (v T, is bool) {
	i := slices.IndexFunc(all, func(one T) bool { return of(one) == name })
	if i < 0 {
		return v, false
	}
	return all[i], true
}

// sandbox returns a sandbox by its name.
func (s *snapshot) sandbox(name string) (model.Sandbox, bool) {
	i, is := s.byName[name]
	if !is {
		return model.Sandbox{}, false
	}
	return s.sandboxes[i], true
}

// report returns what a cluster reports about a subject, with the rights of the person. Without it, it returns why, in a
// sentence with the remedy, which is empty for an object that the cluster does not have.
func report[T any](r *request, cluster, subject string, read func(ctx context.Context, org, cluster string, by model.Author) (T, error)) (T, string) {
	key := strings.Join([]string{r.by.Org, r.by.ID, string(r.by.Role), cluster, subject, r.rows.revision}, "/")
	got, err := r.reports.get(key, func(last any, at time.Time) (any, time.Time, error) {
		if time.Since(at) < reportFor {
			return last, at, nil
		}
		ctx, cancel := context.WithTimeout(context.Background(), reportWithin)
		defer cancel()
		now, err := read(ctx, r.by.Org, cluster, r.author())
		return now, time.Now(), err
	})
	of, _ := got.(T)
	return of, r.unread(cluster, err)
}

// unread returns why a cluster cannot be read. Other errors are in the log only.
func (r *request) unread(cluster string, err error) string {
	switch {
	case err == nil, missing(err):
		return ""
	case errors.Is(err, model.ErrUnreachable):
		return "Cluster " + cluster + " is not connected, so this is its last known state. Check Deployment agent of the cluster."
	case errors.Is(err, model.ErrRefused):
		return "You lack rights in cluster " + cluster + " to see more. Ask an administrator of the cluster to let the group switchyard:controlplane:" + r.by.Org + " read the kinds of signadot.com."
	case errors.Is(err, context.DeadlineExceeded):
		return "Cluster " + cluster + " has not answered in time, so this is its last known state."
	}
	r.Logger.WarnContext(r.Context(), "A cluster cannot be read for a page.", "organisation", r.by.Org, "cluster", cluster, "error", err)
	return "Cluster " + cluster + " cannot be read now, so this is its last known state. The log of the control plane has the error."
}
