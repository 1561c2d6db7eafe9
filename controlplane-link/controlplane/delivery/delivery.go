// Package delivery keeps the sandboxes and route groups of the store in sync with the clusters, through the
// link.
//
//	decide     the next step for a row and an object; pure          decide.go
//	Delivery   a site for each session that this replica has        delivery.go
//	site       the watches and the queues of one session            site.go
//	served     whether the cluster serves jobs                      served.go
//	reconcile  reads a row and its object, and does the step        reconcile.go, write.go
//	observed   what a status has of an object; pure                 observed/
//	Adopt      takes the state of a cluster after a restore         adopt.go
//	jobs       the same for jobs, of which each is written once      jobs.go
//	groups     the same for runner groups, with their scaling       groups.go
//	tests      executions of Smart Tests: their jobs, and the end    tests.go, testrun/
//
// # Contract
//
//   - The replica with the session of a cluster's agent delivers to it. When a session begins, its watches start
//     at once, and no back-off of a former one counts.
//   - Each object has the generation of its row in annotation switchyard.dev/generation; the admission policy of
//     the agent refuses an older one. A row is written once for each generation, with server-side apply, as its last
//     author: a change by another client stays until the next write of the row, which takes it back and records it in
//     the audit trail.
//   - The store has the generation of each write before it is sent. An object with another one, that is newer, is that
//     of another store, and nothing changes it until Adopt.
//   - Nothing is concluded from an object that a list lacks: the API server is asked for the object itself.
//   - An object is deleted for a tombstone only, if it is still the one that was read.
//   - A refusal of the API server is the status of the row, with its words. The write is tried again with back-off.
//   - While a cluster has no session its rows wait. Rows have the newest state only.
package delivery

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"sync"

	"switchyard.dev/controlplane-link/controlplane/captures"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/smarttests"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/registry"
	"switchyard.dev/controlplane-link/server"
	crdv1 "switchyard.dev/protos/crd/v1"
)

// Config configures a Delivery.
type Config struct {
	// Store and Server are those of this replica. Required.
	Store  *store.Store
	Server *server.Server
	// Logger logs clusters that are not synchronised. Required.
	Logger *slog.Logger
	// Collect stores what a job has left in its pod, and releases it there; nil: nothing is stored. It is called again after
	// an error, and when a session begins. Discard deletes the stored files of a job before its row is deleted, and is
	// called again after an error; it can be nil.
	Collect func(context.Context, registry.Cluster, model.Job, *crdv1.Job) error
	Discard func(context.Context, model.Job) error
	// Output opens the stored standard output of a job; nil: it is not stored yet. Without it Smart Tests have no results.
	Output func(context.Context, model.Job) (io.ReadCloser, error)
	// Captures has captures of requests, which are recorded for Smart Tests; nil: none are.
	Captures *captures.Store
	// SmartTest is the path of the interpreter in its image. Default: /smart-test.
	SmartTest string
}

// Delivery delivers to the clusters that have a session with this replica. Make one with New.
type Delivery struct {
	Config
	mu    sync.Mutex
	sites map[registry.Cluster]*site
	// concluding: an execution of a test ends, and the output of its jobs is in memory.
	concluding sync.Mutex
}

// New returns a Delivery. The caller calls Run.
func New(c Config) *Delivery {
	c.SmartTest = cmp.Or(c.SmartTest, smarttests.Program)
	return &Delivery{Config: c, sites: map[registry.Cluster]*site{}}
}

// Run delivers until ctx ends. Call it once.
func (d *Delivery) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d.Store.Watch(ctx, d.changed)
	for ctx.Err() == nil {
		next := d.Server.Changed()
		if err := d.follow(ctx, &running); err != nil {
			return err
		}
		select {
		case <-next:
		case <-ctx.Done():
		}
	}
	return nil
}

// follow starts a site for each new session, and stops those of sessions that have ended or are not the newest.
func (d *Delivery) follow(ctx context.Context, running *sync.WaitGroup) error {
	current := map[registry.Cluster]*server.Agent{}
	for _, a := range d.Server.Current() {
		current[a.Cluster] = a
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
		s, err := d.newSite(ctx, cluster)
		if err != nil {
			return err
		}
		s.agent, d.sites[cluster] = a, s
		running.Go(s.run)
	}
	return nil
}

// changed enqueues the object of a change in the store.
func (d *Delivery) changed(c store.Change) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for cluster, s := range d.sites {
		switch {
		case c.Kind == store.Everything:
			s.add(everything)
			s.add(everyJob)
		case (kinds[c.Kind] != nil || c.Kind == store.Job || c.Kind == store.RunnerGroup || c.Kind == store.TestExecution) && c.Org == cluster.Organisation && (c.Cluster == "" || c.Cluster == cluster.Name):
			s.add(request{c.Kind, c.Name})
		}
	}
}
