// Package delivery keeps the sandboxes and route groups of the store in sync with the clusters, through the
// link.
//
//	decide     what there is to do for a row and an object; pure     decide.go
//	Delivery   a site for each session that this replica has         delivery.go
//	site       the watches and the queue of one session              site.go
//	reconcile  reads a row and its object, and acts                  reconcile.go, write.go
//	status     what is recorded of an object                         status.go
//	Adopt      takes the state of a cluster after a restore          adopt.go
//
// # Contract
//
//   - The replica with the session of a cluster's agent delivers to it. When a session begins, its watches start
//     at once, and no back-off of a former one counts.
//   - Each object has the generation of its row in annotation switchyard.dev/generation; the admission policy of
//     the agent refuses an older one. A row is written once for each generation, with server-side apply, as its last author: what
//     others change later stays until the next write of the row, which takes it back and records it in the audit trail.
//   - Nothing is concluded from an object that a list lacks: the API server is asked for the object itself.
//   - An object is deleted for a tombstone only, if it is still the one that was read, and no newer than the tombstone.
//   - What the API server refuses is the status of the row, with its words, and is tried again with back-off.
//   - While a cluster has no session its rows wait. Rows have the newest state only.
package delivery

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/registry"
	"switchyard.dev/controlplane-link/server"
)

// Config configures a Delivery.
type Config struct {
	// Store and Server are those of this replica. Required.
	Store  *store.Store
	Server *server.Server
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Logger logs objects that are not written. Default: none.
	Logger *slog.Logger
}

// Delivery delivers to the clusters that have a session with this replica. Make one with New.
type Delivery struct {
	Config
	mu    sync.Mutex
	sites map[registry.Cluster]*site
}

// New returns a Delivery. The caller calls Run.
func New(c Config) (*Delivery, error) {
	if c.Store == nil || c.Server == nil {
		return nil, errors.New("delivery: Store and Server are required")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Delivery{Config: c, sites: map[registry.Cluster]*site{}}, nil
}

// Run delivers until ctx ends. Call it once.
func (d *Delivery) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d.Store.Watch(ctx, d.changed)
	for {
		next := d.Server.Changed()
		d.follow(ctx, &running)
		select {
		case <-next:
		case <-ctx.Done():
			return nil
		}
	}
}

// follow starts a site for each new session, and stops those of sessions that have ended or are not the newest.
func (d *Delivery) follow(ctx context.Context, running *sync.WaitGroup) {
	current := map[registry.Cluster]*server.Agent{}
	for _, a := range d.Server.Agents() {
		if a.Epoch >= d.Server.Epoch(a.Cluster) {
			current[a.Cluster] = a
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for cluster, s := range d.sites {
		if current[cluster] != s.agent {
			s.stop()
			delete(d.sites, cluster)
		}
	}
	for cluster, a := range current {
		if d.sites[cluster] != nil {
			continue
		}
		s := d.newSite(ctx, a)
		d.sites[cluster] = s
		running.Go(s.run)
	}
}

// changed enqueues what a change in the store concerns.
func (d *Delivery) changed(c store.Change) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for cluster, s := range d.sites {
		switch {
		case c.Kind == store.Everything:
			s.enqueue(everything)
		case c.Org != cluster.Organisation:
		case c.Kind == store.RouteGroup && (c.Cluster == "" || c.Cluster == cluster.Name):
			s.enqueue(request{c.Kind, c.Name})
		case c.Kind == store.Sandbox:
			if c.Cluster == cluster.Name {
				s.enqueue(request{c.Kind, c.Name})
			}
			s.later(groups) // which can have the sandbox as a member
		}
	}
}
