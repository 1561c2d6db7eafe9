package jobstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"switchyard.dev/controlplane-link/controlplane/jobstore"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/tests/link/stores"
)

func TestMain(m *testing.M) { stores.Main(m) }

const org = "acme"

var now = time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)

// world is a store with a cluster and a runner group.
type world struct {
	*stores.Scene
	jobstore.Store
}

// each runs a test on both databases.
func each(t *testing.T, test func(*world)) {
	stores.Each(t, func(s *stores.Scene) {
		w := &world{s, jobstore.Store{Store: s.Opened}}
		w.Must(w.CreateCluster(t.Context(), model.Cluster{Org: org, Name: "demo", CreatedAt: now}, w.Event(org)))
		_, err := w.PutGroup(t.Context(), group("tests"), w.Event(org))
		w.Must(err)
		test(w)
	}, org)
}

func group(name string) model.RunnerGroup {
	return model.RunnerGroup{Org: org, Name: name, Cluster: "demo", Namespace: "shop", Spec: []byte(`{"image":"i"}`), CreatedAt: now, UpdatedAt: now}
}

// submit submits a job.
func (w *world) submit(name, sandbox string) model.Job {
	w.Helper()
	j, err := w.Submit(w.Context(), model.Job{Org: org, Name: name, Group: "tests", Sandbox: sandbox, Spec: []byte(`{"runnerGroup":"tests"}`), CreatedAt: now}, w.Event(org))
	w.Must(err)
	return j
}

// is returns a job as it is kept.
func (w *world) is(name string) model.Job {
	w.Helper()
	j, err := w.Job(w.Context(), org, name)
	w.Must(err)
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
		w.submit("waits", "")
		old, err := w.Expired(w.Context(), org, time.Now().Add(time.Hour))
		if err != nil || len(old) != 1 || old[0].Name != "j" {
			w.Errorf("expired: %v, %v", old, err)
		}
		w.Must(w.Expire(w.Context(), org, []string{"j"}, w.Event(org)))
		if all, err := w.Jobs(w.Context(), org, ""); err != nil || len(all) != 1 || all[0].Name != "waits" {
			w.Errorf("left: %v, %v", all, err)
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
			j, err := w.Cancel(w.Context(), org, name, now, w.Event(org))
			w.Must(err)
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
		remove := func(name string) { w.Must(w.DeleteJob(w.Context(), org, name, now, w.Event(org))) }
		remove("waits")
		remove("runs")
		if _, err := w.Job(w.Context(), org, "waits"); !errors.Is(err, model.ErrNotFound) {
			w.Errorf("%v", err)
		}
		if _, err := w.Cancel(w.Context(), org, "runs", now, w.Event(org)); !errors.Is(err, model.ErrDeleting) {
			w.Errorf("%v", err)
		}
		w.attempt(w.is("runs"), false)
		w.Must(w.Finish(w.Context(), org, "runs", w.Event(org)))
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
		w.Must(w.EndLost(w.Context(), org, "box", w.Event(org)))
		if a := w.is("lost").Attempt; a.Phase != model.PhaseCanceled || a.CanceledBy != model.CanceledInternally || a.Reason != "SandboxDeleted" {
			w.Errorf("%+v", a)
		}
		if got, err := w.PhasesOfSandboxes(w.Context(), org); got["box"][model.PhaseCanceled] != 1 || got["box"][model.PhaseQueued] != 1 || err != nil {
			w.Errorf("%v, %v", got, err)
		}
		if err := w.Store.DeleteCluster(w.Context(), org, "demo", w.Event(org)); !errors.Is(err, model.ErrInUse) || !strings.Contains(err.Error(), `runner group "tests"`) {
			w.Errorf("%v", err)
		}
		w.Must(w.DeleteGroup(w.Context(), org, "tests", now, w.Event(org)))
		if a := w.is("waits").Attempt; a.Phase != model.PhaseCanceled || a.Reason != "RunnerGroupDeleted" {
			w.Errorf("%+v", a)
		}
		if j := w.is("there"); j.Attempt.Phase != model.PhaseQueued || !j.GroupDeletedAt.IsZero() {
			w.Errorf("%+v", j)
		}
		if _, err := w.PutGroup(w.Context(), group("tests"), w.Event(org)); !errors.Is(err, model.ErrDeleting) {
			w.Errorf("%v", err)
		}
		if _, err := w.Submit(w.Context(), model.Job{Org: org, Name: "late", Group: "tests", Spec: []byte(`{}`)}, w.Event(org)); !errors.Is(err, model.ErrDeleting) {
			w.Errorf("%v", err)
		}
		g, err := w.Group(w.Context(), org, "tests")
		w.Must(err)
		w.Must(w.FinishGroup(w.Context(), g, w.Event(org)))
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
		if _, err := w.PutGroup(w.Context(), moved, w.Event(org)); !errors.Is(err, model.ErrMoved) {
			w.Errorf("%v", err)
		}
		before, err := w.Group(w.Context(), org, "tests")
		w.Must(err)
		again := group("tests")
		again.Spec = []byte(`{"image":"j"}`)
		g, err := w.PutGroup(w.Context(), again, w.Event(org))
		if err != nil || g.Generation <= before.Generation || string(g.Spec) != `{"image":"j"}` {
			w.Errorf("%+v, %v", g, err)
		}
		for n := range 2 { // the second is of a status that was replaced
			if is, err := w.ObserveGroup(w.Context(), g, model.RunnerGroupStatus{Ready: 2 - n, Idle: 1, Message: "m"}); err != nil || is != (n == 0) {
				w.Errorf("observation %d: %v, %v", n, is, err)
			}
		}
		all, err := w.Groups(w.Context(), org)
		if err != nil || len(all) != 1 || all[0].Status.Ready != 2 || all[0].Status.Message != "m" {
			w.Errorf("%+v, %v", all, err)
		}
	})
}
