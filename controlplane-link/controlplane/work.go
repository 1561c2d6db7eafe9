package controlplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	kubernetesscheme "k8s.io/client-go/kubernetes/scheme"
	restclient "k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/controlplane-link/controlplane/admin"
	"switchyard.dev/controlplane-link/controlplane/jobstore"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/controlplane/teststore"
	"switchyard.dev/controlplane-link/preview/endpoints"
	"switchyard.dev/controlplane-link/registry"
	"switchyard.dev/controlplane-link/runner"
	"switchyard.dev/controlplane-link/server"
	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	"switchyard.dev/sidecars/traffic/recording"
	runnerclient "switchyard.dev/workflows/jobexec/client"
	"switchyard.dev/workflows/jobexec/results"
)

// through sends requests through the link.
type through struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper. The error wraps model.ErrUnreachable while no agent is connected.
func (t through) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.RoundTripper.RoundTrip(r)
	if errors.Is(err, server.ErrNoAgent) {
		err = fmt.Errorf("%w: %w", model.ErrUnreachable, err)
	}
	return answer, err
}

// reader is client for reads.
func (m *Main) reader(ctx context.Context, org, name string, user model.Author) (client.Reader, error) {
	return m.client(ctx, org, name, user)
}

// client returns the client of a cluster, with the rights that a user of the control plane has there.
func (m *Main) client(_ context.Context, org, name string, user model.Author) (client.Client, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(kubernetesscheme.AddToScheme(scheme), crdv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	caller := &linkv1.Caller{Name: cmp.Or(user.Name, user.ID), Roles: []string{string(user.Role)}} // never the empty one, which is the control plane
	link := m.link.Transport(registry.Cluster{Organisation: org, Name: name}, caller)
	link.ResponseHeaderTimeout = 10 * time.Second // no context ends requests for kinds
	return client.New(&restclient.Config{Host: "http://kubernetes", QPS: -1}, client.Options{HTTPClient: &http.Client{Transport: through{link}}, Scheme: scheme})
}

// dial returns a client of a runner beyond the link. It is a jobs.Dial.
func (m *Main) dial(ctx context.Context, at registry.Cluster, job, podUID string) (*runnerclient.Client, error) {
	of, _, err := runner.Client(ctx, m.link, at, &linkv1.Runner{Job: job, PodUid: podUID})
	return of, err
}

// version is that of the published operator with the interfaces that agents serve: published clients compare it.
const version = "1.2.0"

// watchAgents records what the agents of sessions have reported, until ctx ends.
func (m *Main) watchAgents(ctx context.Context) error {
	reported := map[registry.Cluster]uint64{}
	for ctx.Err() == nil {
		changed := m.link.Changed()
		for _, a := range m.link.Agents() {
			c := model.Cluster{
				Org: a.Cluster.Organisation, Name: a.Cluster.Name, OperatorVersion: fmt.Sprintf("%s (switchyard %s)", version, a.Hello.GetOperatorVersion()),
				Config: endpoints.Reported(a.Hello.GetConfiguration()),
			}
			if reported[a.Cluster] == a.Epoch {
				continue
			}
			reported[a.Cluster] = a.Epoch
			err := m.store.ReportCluster(ctx, c)
			if err == nil {
				err = m.readPreviews(ctx, c)
			}
			if err != nil {
				reported[a.Cluster] = 0
				m.cfg.Logger.Warn("the report of an agent was not recorded", "organisation", c.Org, "cluster", c.Name, "error", err)
			}
		}
		select {
		case <-changed:
		case <-time.After(reportAfter):
		case <-ctx.Done():
		}
	}
	return nil
}

// reportAfter is when a report that was not recorded is repeated.
const reportAfter = 10 * time.Second

const (
	// healthEvery is the pause between two checks of the store, healthWithin bounds one.
	healthEvery, healthWithin = 5 * time.Second, 4 * time.Second
	// houseEvery is the pause between two deletions of old entries, lifetimesEvery that between two of expired objects.
	houseEvery, lifetimesEvery = time.Hour, time.Minute
	// removeWithin is the timeout for the files of a job.
	removeWithin = time.Minute
	// lifetimesAfter is when lifetimes end first after the start: sessions show whether the store is an old backup.
	lifetimesAfter = 30 * time.Second
)

// keepHouse checks the store, and deletes expired objects, until ctx ends. Expired logins and sessions are deleted
// by later ones.
func (m *Main) keepHouse(ctx context.Context) error {
	type task struct {
		every time.Duration
		last  time.Time
		do    func(ctx context.Context, org string, now time.Time)
	}
	tasks := []*task{{lifetimesEvery, time.Now().Add(lifetimesAfter - lifetimesEvery), m.endLifetimes}, {houseEvery, time.Time{}, m.expire}}
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		m.begin(ctx)
		orgs, err := m.check(ctx)
		now := time.Now()
		for _, t := range tasks {
			if err != nil || now.Sub(t.last) < t.every {
				continue
			}
			t.last = now
			for _, o := range orgs {
				t.do(ctx, o.Name, now.UTC())
			}
		}
	}, healthEvery)
	return nil
}

// check reads the organisations, and logs when that fails for the first time, or succeeds again.
func (m *Main) check(ctx context.Context) ([]model.Organisation, error) {
	checking, cancel := context.WithTimeout(ctx, healthWithin)
	defer cancel()
	orgs, err := m.store.Organisations(checking)
	failed := err != nil && ctx.Err() == nil
	switch changed := m.unread.Swap(failed) != failed; {
	case changed && failed:
		m.cfg.Logger.Warn("the store cannot be read", "error", err)
	case changed:
		m.cfg.Logger.Info("the store can be read again")
	}
	return orgs, err
}

// housekeeping is an entry of the audit trail for a deletion. Those of one round have different times: pages end between them.
func housekeeping(what string, data map[string]any) model.Event {
	return store.Entry(model.Caller{Principal: model.Principal{Kind: model.KindSystem, ID: "controlplane"}, Method: model.MethodInternal}, what, time.Now().UTC(), data)
}

// endLifetimes deletes the sandboxes and route groups of an organisation with a lifetime that has ended.
func (m *Main) endLifetimes(ctx context.Context, org string, now time.Time) {
	err := m.store.EndLifetimes(ctx, org, now, func(what store.Kind, name string) model.Event {
		return housekeeping(string(what)+".expire", map[string]any{"name": name})
	})
	if err != nil && ctx.Err() == nil {
		m.cfg.Logger.Warn("expired sandboxes or route groups are not deleted", "organisation", org, "error", err)
	}
}

// begin creates the organisation and its first administrator, once.
func (m *Main) begin(ctx context.Context) {
	if m.begun || m.cfg.Organisation == "" {
		return
	}
	key := func(context.Context) (string, error) { return "", nil }
	if m.cfg.FirstKey != nil {
		key = m.cfg.FirstKey.Key
	}
	err := admin.First(ctx, m.store, m.cfg.Organisation, key)
	if m.begun = err == nil; !m.begun {
		m.cfg.Logger.Warn("the organisation has no administrator yet", "organisation", m.cfg.Organisation, "error", err)
	}
}

// expire deletes what an organisation has had for too long.
func (m *Main) expire(ctx context.Context, org string, now time.Time) {
	log := m.cfg.Logger.With("organisation", org)
	if keep := m.cfg.KeepEvents; keep > 0 {
		n, err := m.store.DeleteEvents(ctx, org, now.Add(-keep))
		logDeletion(log, "old entries of the audit trail", n, err)
	}
	if keep := m.cfg.KeepDevboxes; keep > 0 {
		n, err := m.store.DeleteIdleDevboxes(ctx, org, now.Add(-keep), housekeeping("devbox.expire", nil))
		logDeletion(log, "devboxes that were not used", n, err)
	}
}

// keepJobs deletes the jobs that ended long ago, until ctx ends. Nothing else waits for the server that has their files.
func (m *Main) keepJobs(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		orgs, err := m.store.Organisations(ctx)
		logDeletion(m.cfg.Logger, "jobs that have ended", 0, err)
		for _, o := range orgs {
			before := time.Now().UTC().Add(-m.cfg.KeepJobs)
			n, err := teststore.Store{Store: m.store}.Expire(ctx, o.Name, before)
			logDeletion(m.cfg.Logger.With("organisation", o.Name), "executions of tests that have ended", n, err)
			n, err = m.expireJobs(ctx, o.Name, before)
			logDeletion(m.cfg.Logger.With("organisation", o.Name), "jobs that have ended", n, err)
		}
	}, houseEvery)
	return nil
}

// keepCaptures deletes the captures that began long ago, or were deleted, until ctx ends. None records for longer than an hour.
func (m *Main) keepCaptures(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		orgs, err := m.store.Organisations(ctx)
		logDeletion(m.cfg.Logger, "old captures", 0, err)
		var before time.Time
		if m.cfg.KeepCaptures > 0 {
			before = time.Now().UTC().Add(-max(m.cfg.KeepCaptures, 2*recording.Longest))
		}
		for _, o := range orgs {
			old, err := m.captures.Store.Expired(ctx, o.Name, before)
			var n int64
			for _, c := range old {
				failed := m.captures.Remove(c, "capture.expire")
				if err = errors.Join(err, failed); failed == nil {
					n++
				}
			}
			logDeletion(m.cfg.Logger.With("organisation", o.Name), "old captures", n, err)
		}
	}, houseEvery)
	return nil
}

// expireJobs deletes the jobs of an organisation that ended before a time, each after its files, and returns how many. A job
// with files that cannot be deleted is left for the next time, and so is the rest where the server does not answer in time.
func (m *Main) expireJobs(ctx context.Context, org string, before time.Time) (int64, error) {
	jobs := jobstore.Store{Store: m.store}
	all, err := jobs.Expired(ctx, org, before)
	var names []string
	for _, j := range all {
		failed := m.remove(ctx, j)
		if failed == nil {
			names = append(names, j.Name)
			continue
		}
		err = errors.Join(err, fmt.Errorf("delete the output of job %s: %w", j.Name, failed))
		if errors.Is(failed, context.DeadlineExceeded) || errors.Is(failed, context.Canceled) {
			break
		}
	}
	if len(names) > 0 {
		err = errors.Join(err, jobs.Expire(ctx, org, names, housekeeping("job.expire", nil)))
	}
	return int64(len(names)), err
}

// output opens the stored standard output of a job; nil: it is not stored yet.
func (m *Main) output(ctx context.Context, j model.Job) (io.ReadCloser, error) {
	of, err := m.kept.Manifest(ctx, j.Org, j.Name)
	if of == nil || err != nil {
		return nil, err
	}
	f := of.File(results.System, results.Stdout)
	if f == nil || f.Problem != "" {
		return io.NopCloser(strings.NewReader("")), nil
	}
	return m.kept.Open(ctx, j.Org, j.Name, f)
}

// discard deletes the files of a job that is deleted.
func (m *Main) discard(ctx context.Context, j model.Job) error {
	j.Attempt.Output = "" // which is not to be collected
	if err := m.remove(ctx, j); err != nil {
		return fmt.Errorf("delete the output of job %s: %w", j.Name, err)
	}
	return nil
}

// remove deletes the files of a job, and logs that there are none, as the pod still has its output.
func (m *Main) remove(ctx context.Context, j model.Job) error {
	if m.kept == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, removeWithin)
	defer cancel()
	if j.Attempt.Output == crdv1.OutputKept {
		if stored, err := m.kept.Manifest(ctx, j.Org, j.Name); err == nil && stored == nil {
			m.cfg.Logger.Warn("a job that ended long ago is deleted without its output, which was never collected: its cluster was not reached", "organisation", j.Org, "job", j.Name, "cluster", j.Cluster)
		}
	}
	return m.kept.Delete(ctx, j.Org, j.Name)
}

// logDeletion logs how many objects were deleted, or why some were not.
func logDeletion(log *slog.Logger, what string, n int64, err error) {
	switch {
	case err != nil:
		log.Warn(what+" are not deleted", "deleted", n, "error", err)
	case n > 0:
		log.Info(what+" are deleted", "number", n)
	}
}

// adopt takes the state of a cluster for a command of an administrator, or lists the objects that it would take.
func (m *Main) adopt(ctx context.Context, org, cluster string, dry bool) (string, error) {
	taken := map[bool]string{false: "taken ", true: "newer "}[dry]
	done, err := m.delivery.Adopt(ctx, org, cluster, dry)
	return lines(taken, done.Taken) + lines("left ", done.Left), err
}

// lines returns a line for each name.
func lines(beginning string, names []string) string {
	return strings.Join(lists.Map(names, func(name string) string { return beginning + name + "\n" }), "")
}
