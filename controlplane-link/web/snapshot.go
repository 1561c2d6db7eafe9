package web

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"switchyard.dev/controlplane-link/admission"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/registry"
)

const (
	// readGap is the pause between two reads of an organisation, keepFor is how long one is used if nothing changes,
	// and readWithin bounds one.
	readGap, keepFor, readWithin = 100 * time.Millisecond, 10 * time.Second, 10 * time.Second
)

// snapshot has the rows of an organisation.
type snapshot struct {
	revision   string
	at         time.Time
	clusters   []model.Cluster
	sessions   map[string]admission.Entry // by cluster
	sandboxes  []model.Sandbox
	groups     []model.RouteGroup
	candidates []model.Candidate
}

// cluster returns a cluster; the zero one: there is none of that name.
func (s *snapshot) cluster(name string) model.Cluster {
	for _, c := range s.clusters {
		if c.Name == name {
			return c
		}
	}
	return model.Cluster{}
}

// live reports whether the agent of a cluster is connected.
func (s *snapshot) live(cluster string) bool { return s.sessions[cluster].Live(s.at) }

// snapshots are those of all organisations. All pages that are open share one read for each revision.
type snapshots struct {
	store    *store.Store
	revision func(org string) string
	reads    singleflight.Group

	mu   sync.Mutex
	last map[string]*snapshot
}

// of returns a snapshot of the present revision of an organisation.
func (s *snapshots) of(ctx context.Context, org string) (*snapshot, error) {
	revision := s.revision(org)
	if last := s.known(org); last != nil && last.revision == revision && time.Since(last.at) < keepFor {
		return last, nil
	}
	done := s.reads.DoChan(org+" "+revision, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readWithin) // it is for the others as well
		defer cancel()
		if last := s.known(org); last != nil {
			time.Sleep(min(readGap, readGap-time.Since(last.at)))
		}
		now := &snapshot{revision: s.revision(org)}
		if err := s.read(ctx, org, now); err != nil {
			return nil, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.last[org] = now
		return now, nil
	})
	select {
	case got := <-done:
		now, _ := got.Val.(*snapshot)
		return now, got.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *snapshots) known(org string) *snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last[org]
}

// read reads an organisation.
func (s *snapshots) read(ctx context.Context, org string, into *snapshot) (err error) {
	if into.clusters, err = s.store.Clusters(ctx, org); err != nil {
		return err
	}
	into.sessions = map[string]admission.Entry{}
	for _, c := range into.clusters {
		if into.sessions[c.Name], err = (store.Registry{Store: s.store}).Get(ctx, registry.Cluster{Organisation: org, Name: c.Name}); err != nil {
			return err
		}
	}
	if into.sandboxes, err = s.store.Sandboxes(ctx, org); err != nil {
		return err
	}
	into.candidates, into.at = model.Candidates(into.sandboxes), time.Now()
	into.groups, err = s.store.RouteGroups(ctx, org)
	return err
}
