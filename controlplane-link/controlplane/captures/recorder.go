package captures

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/smarttests"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/registry"
	"switchyard.dev/controlplane-link/server"
	"switchyard.dev/sidecars/traffic/recording"
	"switchyard.dev/workflows/jobexec/results"
)

const (
	// followEvery is how often the captures of clusters are read if nothing has changed, and againAfter when one is tried again that has
	// failed for a temporary reason.
	followEvery, againAfter = 5 * time.Second, 5 * time.Second
	// sandboxWithin is how long a new specification of a sandbox may take to be written to its cluster.
	sandboxWithin = 30 * time.Second
	// removeWithin bounds the deletion of the files of a capture.
	removeWithin = time.Minute
)

// Recorder records in the clusters that have a session with this replica. All fields are required.
type Recorder struct {
	Store  Store
	Server *server.Server
	Files  results.Backend
	Logger *slog.Logger
	// Client returns a client of a cluster's API with the rights of a user.
	Client func(ctx context.Context, org, cluster string, user model.Author) (client.Client, error)

	mu  sync.Mutex
	all map[[2]string]*run
}

// run is a capture that is recorded here.
type run struct {
	agent *server.Agent
	// leave lets another one continue, and stop ends the capture.
	leave, stop context.CancelFunc
	// until is when a run that has ended can be followed by another one; zero: it has not.
	until time.Time
}

// Run records until ctx ends. Call it once.
func (r *Recorder) Run(ctx context.Context) error {
	r.all = map[[2]string]*run{}
	changed := make(chan struct{}, 1)
	r.Store.Watch(ctx, func(c store.Change) {
		if c.Kind == store.Capture || c.Kind == store.Everything {
			select {
			case changed <- struct{}{}:
			default: // it is about to be read
			}
		}
	})
	var running sync.WaitGroup
	defer running.Wait()
	for ctx.Err() == nil {
		next := r.Server.Changed()
		r.follow(ctx, &running)
		select {
		case <-next:
		case <-changed:
		case <-time.After(followEvery):
		case <-ctx.Done():
		}
	}
	return nil
}

// follow begins captures of the sessions of this replica, ends those that users have ended, and leaves those of other sessions.
func (r *Recorder) follow(ctx context.Context, running *sync.WaitGroup) {
	current := r.Server.Current()
	r.tidy(current)
	for _, a := range current {
		all, err := r.Store.running(ctx, a.Cluster.Organisation, a.Cluster.Name)
		if err != nil && ctx.Err() == nil {
			r.Logger.Warn("the captures of a cluster cannot be read", "organisation", a.Cluster.Organisation, "cluster", a.Cluster.Name, "error", err)
		}
		for _, c := range all {
			r.keep(ctx, running, a, c)
		}
	}
}

// tidy leaves the captures of other sessions, and forgets those that can be tried again.
func (r *Recorder) tidy(current []*server.Agent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, of := range r.all {
		if !slices.Contains(current, of.agent) {
			of.leave()
		}
		if !of.until.IsZero() && time.Now().After(of.until) {
			delete(r.all, id)
		}
	}
}

// keep begins a capture that is not recorded here, or ends one.
func (r *Recorder) keep(ctx context.Context, running *sync.WaitGroup, a *server.Agent, c Capture) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := [2]string{c.Org, c.Name}
	if of := r.all[id]; of != nil {
		if !c.StoppedAt.IsZero() {
			of.stop()
		}
		return
	}
	of := &run{agent: a}
	left, leave := context.WithCancel(ctx)
	on, stop := context.WithCancel(left)
	of.leave, of.stop, r.all[id] = leave, stop, of
	running.Go(func() {
		defer leave()
		if !c.StoppedAt.IsZero() {
			stop()
		}
		r.record(on, left, a.Cluster, c)
		r.mu.Lock()
		defer r.mu.Unlock()
		of.until = time.Now().Add(againAfter)
	})
}

// record records a capture until it has ended, or left has.
func (r *Recorder) record(ctx, left context.Context, at registry.Cluster, c Capture) {
	log := r.Logger.With("organisation", c.Org, "cluster", c.Cluster, "capture", c.Name)
	w := &writer{Store: r.Store, to: r.Files, c: c, saved: state(c), message: c.Message}
	t := reaches(r.Server, at)
	user, err := r.Client(left, c.Org, c.Cluster, c.Author)
	if err == nil {
		_, err = recording.Record(ctx, recording.Config{
			Client: user, Replicas: t.replicas, Dial: t.dial, Ticket: t.Ticket, Each: w.each, Note: w.note, Name: c.Name, Left: left, Progress: &w.c.Progress, Save: w.save,
		}, recording.Asked{Sandbox: c.Sandbox, Workload: c.Workload, Traces: smarttests.TracesOf(c.Name), For: max(time.Until(c.Until), time.Nanosecond)})
	}
	begun := len(w.c.Progress.Captures) > 0
	switch {
	case errors.Is(err, recording.ErrLeft), left.Err() != nil:
		log.Info("a capture is continued later", "error", err)
		return
	case !begun && ctx.Err() == nil && time.Now().Before(c.Until) && temporary(err, time.Since(c.CreatedAt)):
		w.note(err.Error())
		log.Info("a capture has not begun yet", "error", errors.Join(err, w.save()))
		return
	case err != nil && (begun || ctx.Err() == nil):
		log.Warn("a capture has ended with an error", "error", err)
	}
	if err := w.end(reason(ctx, w, err)); err != nil {
		log.Warn("the end of a capture is not saved", "error", err)
		return
	}
	if now, err := r.Store.Capture(context.WithoutCancel(ctx), c.Org, c.Name); err == nil && !now.DeletedAt.IsZero() {
		if err := r.Remove(now, "capture.deleted"); err != nil {
			log.Warn("a capture is not deleted", "error", err)
		}
	}
}

// reason returns why a capture has ended.
func reason(ctx context.Context, w *writer, err error) string {
	switch {
	case errors.Is(err, recording.ErrFull):
		return "It has its maximum size."
	case ctx.Err() != nil:
		return "A user has ended it."
	case err != nil:
		return err.Error()
	case time.Now().After(w.c.Until):
		return "Its time is over."
	}
	return w.message
}

// temporary reports whether the error of a capture, which was created some time ago, is not one of its user.
func temporary(err error, age time.Duration) bool {
	var answered apierrors.APIStatus
	switch {
	case errors.Is(err, recording.ErrNoSandbox), errors.Is(err, recording.ErrNoFork):
		return age < sandboxWithin
	case errors.As(err, &answered):
		return apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsInternalError(err)
	}
	return err != nil
}

// Remove removes a capture that nothing records, with its files.
func (r *Recorder) Remove(c Capture, what string) error {
	ctx, cancel := context.WithTimeout(context.Background(), removeWithin)
	defer cancel()
	if err := Delete(ctx, r.Files, c); err != nil {
		return err
	}
	by := model.Caller{Org: c.Org, Principal: model.Principal{Kind: model.KindSystem, ID: "controlplane"}, Method: model.MethodInternal}
	return r.Store.Remove(ctx, c, store.Entry(by, what, time.Now().UTC(), map[string]any{"name": c.Name}))
}
