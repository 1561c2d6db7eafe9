package jobstore_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/controlplane-link/controlplane/jobstore"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/controlplane/store/seal"
	"switchyard.dev/tests/postgres"
)

var (
	server *postgres.Server
	count  atomic.Int64
)

func TestMain(m *testing.M) {
	var err error
	if server, err = postgres.Temporary(context.Background(), "fsync=off", "full_page_writes=off"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = server.Remove()
	os.Exit(code)
}

const org = "acme"

var now = time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)

// world is a store with a cluster and a runner group.
type world struct {
	*testing.T
	jobstore.Store
	events int
}

// each runs a test on both databases.
func each(t *testing.T, test func(*world)) {
	keys, err := seal.Parse("first " + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32))))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]store.Config{"sqlite": {Path: filepath.Join(t.TempDir(), "store.db"), Keys: keys}, "postgres": {Keys: keys}} {
		t.Run(name, func(t *testing.T) {
			if name == "postgres" {
				if c.PostgreSQL, err = server.Create(t.Context(), fmt.Sprint("jobs", count.Add(1)), ""); err != nil {
					t.Fatal(err)
				}
			}
			s, err := store.Open(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			w := &world{T: t, Store: jobstore.Store{Store: s}}
			w.must(s.CreateOrganisation(t.Context(), model.Organisation{Name: org, CreatedAt: now}, w.event("organisation.create")))
			w.must(s.CreateCluster(t.Context(), model.Cluster{Org: org, Name: "demo", CreatedAt: now}, w.event("cluster.create")))
			_, err = w.PutGroup(t.Context(), group("tests"), w.event("runnergroup.apply"))
			w.must(err)
			test(w)
		})
	}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) event(what string) model.Event {
	w.events++
	return model.Event{Org: org, ID: fmt.Sprintf("%s-%d", w.Name(), w.events), Type: what, At: now, By: model.Principal{Kind: model.KindUser, ID: "u1", Name: "jo"}, Role: model.RoleMember}
}

func group(name string) model.RunnerGroup {
	return model.RunnerGroup{Org: org, Name: name, Cluster: "demo", Namespace: "shop", Spec: []byte(`{"image":"i"}`), CreatedAt: now, UpdatedAt: now}
}

// submit submits a job.
func (w *world) submit(name, sandbox string) model.Job {
	w.Helper()
	j, err := w.Submit(w.Context(), model.Job{Org: org, Name: name, Group: "tests", Sandbox: sandbox, Spec: []byte(`{"runnerGroup":"tests"}`), CreatedAt: now}, w.event("job.submit"))
	w.must(err)
	return j
}

// is returns a job as it is kept.
func (w *world) is(name string) model.Job {
	w.Helper()
	j, err := w.Job(w.Context(), org, name)
	w.must(err)
	return j
}

// attempt records that a job is written to its cluster.
func (w *world) attempt(j model.Job, want bool) {
	w.Helper()
	if is, err := w.Attempt(w.Context(), j, now); is != want || err != nil {
		w.Errorf("%s: attempted %v, %v", j.Name, is, err)
	}
}

// observe records a phase.
func (w *world) observe(j model.Job, phase model.Phase, want bool) {
	w.Helper()
	if is, err := w.Observe(w.Context(), j, model.Attempt{Phase: phase, Seen: true}); is != want || err != nil {
		w.Errorf("%s: %s observed %v, %v", j.Name, phase, is, err)
	}
}

func TestAJobHasFourWrites(t *testing.T) {
	each(t, func(w *world) {
		writes, observations := w.Transactions()
		j := w.submit("j", "")
		if j.Cluster != "demo" || j.Namespace != "shop" || j.Sequence == 0 || j.Attempt.Phase != model.PhaseQueued {
			w.Errorf("%+v", j)
		}
		w.attempt(j, true)
		w.observe(j, model.PhaseRunning, true)
		w.observe(j, model.PhaseSucceeded, true)
		if a, b := w.Transactions(); a-writes+b-observations != 4 {
			w.Errorf("%d writes and %d observations", a-writes, b-observations)
		}
		w.observe(j, model.PhaseSucceeded, false) // the same
		w.observe(j, model.PhaseFailed, false)    // a final phase stays
		w.observe(j, model.PhaseRunning, false)
		w.attempt(j, false)
		if got := w.is("j"); got.Attempt.Phase != model.PhaseSucceeded || got.Attempted.IsZero() {
			w.Errorf("%+v", got)
		}
		broken := errors.New("the bucket is broken")
		for _, fault := range []error{broken, nil} {
			n, err := w.Expire(w.Context(), org, time.Now().Add(time.Hour), w.event("job.expire"), func(name string) error {
				w.is(name) // its row is the last record of its files
				return fault
			})
			if !errors.Is(err, fault) || fault == nil && n != 1 {
				w.Errorf("expired: %d, %v", n, err)
			}
		}
		if _, err := w.Job(w.Context(), org, "j"); !errors.Is(err, model.ErrNotFound) {
			w.Errorf("the job: %v", err)
		}
	})
}

func TestTheQueue(t *testing.T) {
	each(t, func(w *world) {
		for i := range 5 {
			j := w.submit(fmt.Sprint("j", i), "")
			if n, err := w.Before(w.Context(), j); n != int64(i) || err != nil {
				w.Errorf("%d before %s, %v", n, j.Name, err)
			}
		}
		w.attempt(w.is("j0"), true)
		w.attempt(w.is("j1"), true)
		w.observe(w.is("j0"), model.PhaseRunning, true)
		if n, err := w.Before(w.Context(), w.is("j4")); n != 3 || err != nil {
			w.Errorf("%d are before it, %v", n, err)
		}
		if next, err := w.Next(w.Context(), org, "tests"); next != "j2" || err != nil {
			w.Errorf("the next is %q, %v", next, err)
		}
		if all, err := w.Phases(w.Context(), org); all["tests"][model.PhaseQueued] != 4 || all["tests"][model.PhaseRunning] != 1 || err != nil {
			w.Errorf("%v, %v", all, err)
		}
		all, err := w.Jobs(w.Context(), org, "")
		if err != nil || len(all) != 5 || all[0].Name != "j4" {
			w.Errorf("%+v, %v", all, err)
		}
		if names, err := w.Store.Delivered(w.Context(), org, "demo"); len(names) != 6 || err != nil {
			w.Errorf("%v, %v", names, err)
		}
	})
}

func TestCancelationAndDeletion(t *testing.T) {
	each(t, func(w *world) {
		cancel := func(name string) model.Job {
			j, err := w.Cancel(w.Context(), org, name, now, w.event("job.cancel"))
			w.must(err)
			return j
		}
		waits := w.submit("waits", "")
		if j := cancel("waits"); j.Attempt.Phase != model.PhaseCanceled || j.Attempt.CanceledBy != model.CanceledByRequest || j.Attempt.InCluster {
			w.Errorf("one that waits: %+v", j)
		}
		w.attempt(waits, false)
		runs := w.submit("runs", "")
		w.attempt(runs, true)
		if j := cancel("runs"); j.Attempt.Phase != model.PhaseQueued || j.CanceledAt.IsZero() || j.Generation <= runs.Generation || j.Sequence != runs.Sequence {
			w.Errorf("one in the cluster: %+v", j)
		}
		w.attempt(runs, false) // it has another generation
		w.attempt(w.is("runs"), true)
		generation := w.is("runs").Generation
		if j := cancel("runs"); j.Attempt.Phase.Final() || w.is("runs").Generation != generation {
			w.Errorf("again: %+v", j)
		}
		remove := func(name string) { w.must(w.DeleteJob(w.Context(), org, name, now, w.event("job.delete"))) }
		remove("waits")
		remove("runs")
		if _, err := w.Job(w.Context(), org, "waits"); !errors.Is(err, model.ErrNotFound) {
			w.Errorf("%v", err)
		}
		if _, err := w.Cancel(w.Context(), org, "runs", now, w.event("job.cancel")); !errors.Is(err, model.ErrDeleting) {
			w.Errorf("%v", err)
		}
		w.attempt(w.is("runs"), false)
		w.must(w.Finish(w.Context(), org, "runs", w.event("job.deleted")))
		if _, err := w.Job(w.Context(), org, "runs"); !errors.Is(err, model.ErrNotFound) {
			w.Errorf("%v", err)
		}
	})
}

func TestTheEndOfAGroupAndOfASandbox(t *testing.T) {
	each(t, func(w *world) {
		w.submit("waits", "")
		w.submit("lost", "box")
		there := w.submit("there", "box")
		w.attempt(there, true)
		w.must(w.EndLost(w.Context(), org, "box", w.event("job.sandboxdeleted")))
		if a := w.is("lost").Attempt; a.Phase != model.PhaseCanceled || a.CanceledBy != model.CanceledInternally || a.Reason != "SandboxDeleted" {
			w.Errorf("%+v", a)
		}
		if got, err := w.PhasesOfSandboxes(w.Context(), org); got["box"][model.PhaseCanceled] != 1 || got["box"][model.PhaseQueued] != 1 || err != nil {
			w.Errorf("%v, %v", got, err)
		}
		if err := w.Store.DeleteCluster(w.Context(), org, "demo", w.event("cluster.delete")); !errors.Is(err, model.ErrInUse) || !strings.Contains(err.Error(), `runner group "tests"`) {
			w.Errorf("%v", err)
		}
		w.must(w.DeleteGroup(w.Context(), org, "tests", now, w.event("runnergroup.delete")))
		if a := w.is("waits").Attempt; a.Phase != model.PhaseCanceled || a.Reason != "RunnerGroupDeleted" {
			w.Errorf("%+v", a)
		}
		if j := w.is("there"); j.Attempt.Phase != model.PhaseQueued || !j.GroupDeletedAt.IsZero() {
			w.Errorf("%+v", j)
		}
		if _, err := w.PutGroup(w.Context(), group("tests"), w.event("runnergroup.apply")); !errors.Is(err, model.ErrDeleting) {
			w.Errorf("%v", err)
		}
		if _, err := w.Submit(w.Context(), model.Job{Org: org, Name: "late", Group: "tests", Spec: []byte(`{}`)}, w.event("job.submit")); !errors.Is(err, model.ErrDeleting) {
			w.Errorf("%v", err)
		}
		g, err := w.Group(w.Context(), org, "tests")
		w.must(err)
		w.must(w.FinishGroup(w.Context(), g, w.event("runnergroup.deleted")))
		if j := w.is("there"); !j.GroupDeletedAt.Equal(now) {
			w.Errorf("%+v", j)
		}
		if _, err := w.Group(w.Context(), org, "tests"); !errors.Is(err, model.ErrNotFound) {
			w.Errorf("%v", err)
		}
	})
}

func TestAGroupStaysInItsCluster(t *testing.T) {
	each(t, func(w *world) {
		moved := group("tests")
		moved.Namespace = "other"
		if _, err := w.PutGroup(w.Context(), moved, w.event("runnergroup.apply")); !errors.Is(err, model.ErrMoved) {
			w.Errorf("%v", err)
		}
		before, err := w.Group(w.Context(), org, "tests")
		w.must(err)
		again := group("tests")
		again.Spec = []byte(`{"image":"j"}`)
		g, err := w.PutGroup(w.Context(), again, w.event("runnergroup.apply"))
		if err != nil || g.Generation <= before.Generation || string(g.Spec) != `{"image":"j"}` {
			w.Errorf("%+v, %v", g, err)
		}
		for n := range 2 { // the second is of a status that was replaced
			if is, err := w.ObserveGroup(w.Context(), g, model.RunnerGroupStatus{Ready: 2 - n, Idle: 1, Message: "m"}); err != nil || is != (n == 0) {
				w.Errorf("observation %d: %v, %v", n, is, err)
			}
		}
		_, err = w.Database().Observe(w.Context(), "UPDATE runner_groups SET status = $1", `{"ready":2, "removed":1}`) // by another release
		w.must(err)
		g, err = w.Group(w.Context(), org, "tests")
		w.must(err)
		for n := range 2 {
			if is, err := w.ObserveGroup(w.Context(), g, model.RunnerGroupStatus{Ready: 2 + n, Message: "m"}); err != nil || is != (n == 0) {
				w.Errorf("observation %d after another release: %v, %v", n, is, err)
			}
		}
		all, err := w.Groups(w.Context(), org)
		if err != nil || len(all) != 1 || all[0].Status.Ready != 2 || all[0].Status.Message != "m" {
			w.Errorf("%+v, %v", all, err)
		}
	})
}
