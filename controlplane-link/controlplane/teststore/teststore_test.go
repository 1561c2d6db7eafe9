package teststore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store/database"
	"switchyard.dev/controlplane-link/controlplane/teststore"
	v2 "switchyard.dev/protos/controlplane/v2"
	"switchyard.dev/tests/link/stores"
	"switchyard.dev/tools/wait"
)

func TestMain(m *testing.M) { stores.Main(m) }

const org = "acme"

// world is a store with an organisation.
type world struct {
	*stores.Scene
	teststore.Store
}

// each runs a test on both databases.
func each(t *testing.T, test func(*world)) {
	stores.Each(t, func(s *stores.Scene) { test(&world{s, teststore.Store{Store: s.Opened}}) }, org)
}

// submit submits an execution of a sandbox.
func (w *world) submit(id string, change func(*model.TestExecution)) model.TestExecution {
	w.Helper()
	x := model.TestExecution{Org: org, ID: id, Cluster: "east", Test: "t", RunID: "run", Sandbox: "fork", RoutingKey: "key", Revision: 7, Script: "x", Timeout: time.Minute, CreatedAt: w.Now}
	x.Spec.External = &v2.ExternalSpec{TestName: new("t")}
	if change != nil {
		change(&x)
	}
	x, err := w.Submit(w.Context(), x, w.Event(org))
	w.Must(err)
	return x
}

func (w *world) phase(id string, want v2.TestexecutionsPhase) model.TestExecution {
	w.Helper()
	x, err := w.Execution(w.Context(), org, id)
	w.Must(err)
	if x.Status.Phase != want {
		w.Errorf("%s is %s, not %s", id, x.Status.Phase, want)
	}
	return x
}

func (w *world) begin(id string, most int) bool {
	w.Helper()
	x := w.phase(id, model.TestPending)
	x.Status.Phase = model.TestInProgress
	is, err := w.Begin(w.Context(), x, most)
	w.Must(err)
	return is
}

func TestExecutionsBeginUpToAMaximumAndEndOnce(t *testing.T) {
	each(t, func(w *world) {
		for _, id := range []string{"a", "b", "c"} {
			w.submit(id, nil)
		}
		w.submit("west", func(x *model.TestExecution) { x.Cluster = "west" })
		if !w.begin("a", 2) || !w.begin("b", 2) || w.begin("c", 2) || !w.begin("west", 2) {
			t.Error("others begin")
		}
		if x := w.phase("a", model.TestInProgress); x.Timeout != time.Minute || x.Revision != 7 || x.Spec.External == nil {
			t.Errorf("it is %+v", x)
		}
		a := w.phase("a", model.TestInProgress)
		a.Status.Phase = model.TestFailed
		a.Results = &v2.TestExecutionResults{
			Checks:      &v2.TestexecutionsChecks{Sandbox: []v2.TestexecutionsCheck{{Name: "one"}, {Name: "two", Errors: []v2.TestexecutionsCheckError{{Message: "no"}}}}},
			TrafficDiff: &v2.TrafficDiff{Red: v2.TrafficDiffSummary{Captures: 3}},
		}
		for i, want := range []bool{true, false} {
			if is, err := w.Observe(t.Context(), a, w.Now); is != want || err != nil {
				t.Errorf("end %d: %t, %v", i, is, err)
			}
		}
		if !w.begin("c", 2) {
			t.Error("c does not begin after a has ended")
		}
		all, err := w.Summaries(t.Context(), org)
		w.Must(err)
		of := all[teststore.Of{RoutingKey: "key", Revision: 7}]
		if got := of[model.TestFailed]; got != (model.Numbers{Executions: 1, Passed: 1, Failed: 1, Red: 3}) || of[model.TestInProgress].Executions != 3 {
			t.Errorf("the summary is %+v", of)
		}
		if ids, err := w.Unended(t.Context(), org, "east"); err != nil || fmt.Sprint(ids) != "[b c]" {
			t.Errorf("not ended: %v, %v", ids, err)
		}
		if n, err := w.Expire(t.Context(), org, w.Now.Add(time.Second)); n != 1 || err != nil {
			t.Errorf("%d are deleted: %v", n, err)
		}
	})
}

func TestExecutionsAreCanceled(t *testing.T) {
	each(t, func(w *world) {
		w.submit("waits", nil)
		w.submit("runs", nil)
		w.begin("runs", 10)
		for id, phase := range map[string]v2.TestexecutionsPhase{"waits": model.TestCanceled, "runs": model.TestInProgress} {
			w.Must(w.Cancel(t.Context(), org, id, w.Now, w.Event(org)))
			if x := w.phase(id, phase); x.CanceledAt.IsZero() || *x.Status.FinalState.Canceled.CanceledBy != "apiRequest" {
				t.Errorf("%s is %+v", id, x)
			}
		}
		if err := w.Cancel(t.Context(), org, "waits", w.Now, w.Event(org)); !errors.Is(err, teststore.ErrEnded) {
			t.Error(err)
		}
		if err := w.Cancel(t.Context(), org, "no-such", w.Now, w.Event(org)); !errors.Is(err, model.ErrNotFound) {
			t.Error(err)
		}
	})
}

func TestTheNewestRevisionCounts(t *testing.T) {
	each(t, func(w *world) {
		of := func(revision int64) func(*model.TestExecution) {
			return func(x *model.TestExecution) { x.Trigger, x.Revision = "t/1", revision }
		}
		w.submit("first", of(7))
		w.submit("another", func(x *model.TestExecution) { x.Trigger = "t/2" })
		w.submit("user", nil)
		x := model.TestExecution{Org: org, ID: "again", Cluster: "east", Sandbox: "fork", Trigger: "t/1", Revision: 7, CreatedAt: w.Now}
		if _, err := w.Submit(t.Context(), x, w.Event(org)); !errors.Is(err, model.ErrExists) {
			t.Errorf("the same revision again: %v", err)
		}
		w.submit("second", of(8))
		w.phase("first", model.TestCanceled)
		for _, id := range []string{"another", "user", "second"} {
			w.phase(id, model.TestPending)
		}
	})
}

func TestPages(t *testing.T) {
	each(t, func(w *world) {
		for i := range 5 {
			w.submit(fmt.Sprint(i), func(x *model.TestExecution) { x.RunID = fmt.Sprint("run-", i%2) })
		}
		var ids []string
		for l := (teststore.List{Most: 2}); ; {
			page, err := w.Executions(t.Context(), org, l)
			w.Must(err)
			if len(page) == 0 {
				break
			}
			for _, x := range page {
				ids, l.After = append(ids, x.ID), x.Sequence
			}
		}
		newest, err := w.Executions(t.Context(), org, teststore.List{Most: 2, Newest: true, RunID: "run-0", Keep: func(x model.TestExecution) bool { return x.ID != "4" }})
		w.Must(err)
		if strings.Join(ids, "") != "01234" || len(newest) != 2 || newest[0].ID != "2" || newest[1].ID != "0" {
			t.Errorf("%v; %v", ids, newest)
		}
	})
}

func TestTests(t *testing.T) {
	each(t, func(w *world) {
		one := model.Test{Org: org, Name: "one", Spec: v2.TestSpec{Script: new("x = 1")}, UpdatedAt: w.Now}
		first, err := w.PutTest(t.Context(), one, w.Event(org))
		w.Must(err)
		one.Spec.Script, one.UpdatedAt = new("x = 2"), w.Now.Add(time.Minute)
		second, err := w.PutTest(t.Context(), one, w.Event(org))
		w.Must(err)
		if *second.Spec.Script != "x = 2" || second.Generation <= first.Generation || !second.CreatedAt.Equal(w.Now) || second.UpdatedAt.Equal(w.Now) {
			t.Errorf("%+v, then %+v", first, second)
		}
		w.Must(w.DeleteTest(t.Context(), org, "one", w.Event(org)))
		if _, err := w.Test(t.Context(), org, "one"); !errors.Is(err, model.ErrNotFound) {
			t.Error(err)
		}
		if err := w.DeleteTest(t.Context(), org, "one", w.Event(org)); !errors.Is(err, model.ErrNotFound) {
			t.Error(err)
		}
	})
}

// A page of large executions has fewer; the script is stored once, and reads are as before.
func TestAPageOfLargeExecutions(t *testing.T) {
	each(t, func(w *world) {
		script := strings.Repeat("x", 4<<20)
		large := func(x *model.TestExecution) { x.Script, x.Spec.External.Script = script, &script }
		for i := range 5 {
			w.submit(fmt.Sprint("large", i), large)
		}
		var ids []string
		pages := 0
		for l := (teststore.List{Most: 100}); ; pages++ {
			page, err := w.Executions(t.Context(), org, l)
			w.Must(err)
			if len(page) == 0 {
				break
			}
			for _, x := range page {
				if l.After = x.Sequence; x.Script != script || *x.Spec.External.Script != script {
					t.Errorf("%s has another script", x.ID)
				}
				ids = append(ids, x.ID)
			}
		}
		if len(ids) != 5 || pages != 2 {
			t.Errorf("%d in %d pages", len(ids), pages)
		}
	})
}

// The tests of an organisation have a maximum size.
func TestTheSizeOfTests(t *testing.T) {
	each(t, func(w *world) {
		var err error
		for i := 0; i < 5 && err == nil; i++ {
			_, err = w.PutTest(t.Context(), model.Test{Org: org, Name: fmt.Sprint(i), Spec: v2.TestSpec{Script: new(strings.Repeat("é", 2<<20))}, UpdatedAt: w.Now}, w.Event(org))
		}
		if !errors.Is(err, model.ErrTooMany) || !strings.Contains(err.Error(), "bytes of tests") {
			t.Error(err)
		}
		all, err := w.Tests(t.Context(), org)
		if w.Must(err); len(all) != 3 {
			t.Errorf("there are %d", len(all))
		}
	})
}

// An execution that ends while a new revision supersedes it has its end, and one that a user has canceled its user.
func TestAnEndIsNotSuperseded(t *testing.T) {
	each(t, func(w *world) {
		of := func(revision int64) func(*model.TestExecution) {
			return func(x *model.TestExecution) { x.Trigger, x.Revision = "t/1", revision }
		}
		w.submit("ends", of(7))
		w.begin("ends", 10)
		w.submit("canceled", func(x *model.TestExecution) { x.Trigger, x.Revision = "t/1", 6 })
		w.begin("canceled", 10)
		w.Must(w.Cancel(t.Context(), org, "canceled", w.Now, w.Event(org)))
		submitted := make(chan error, 1)
		w.Must(w.Database().Write(t.Context(), func(ctx context.Context, tx *database.Tx) error {
			_, err := database.Exec(ctx, tx, `UPDATE test_executions SET phase = 'succeeded', finished = 1, status = '{"phase":"succeeded"}' WHERE id = 'ends'`)
			go func() {
				_, err := w.Submit(context.WithoutCancel(ctx), model.TestExecution{Org: org, ID: "second", Cluster: "east", Sandbox: "fork", Trigger: "t/1", Revision: 8, CreatedAt: w.Now}, w.Event(org))
				submitted <- err
			}()
			if strings.HasSuffix(w.Name(), "postgres") && err == nil { // until it waits for the row
				err = wait.Until(ctx, time.Minute, "the lock of the row", func() error {
					n, err := database.One(ctx, w.Database().Reads(), database.Column[int64], `SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`)
					if err == nil && n == 0 {
						err = errors.New("it does not wait")
					}
					return err
				})
			}
			return err
		}))
		w.Must(<-submitted)
		w.phase("ends", model.TestSucceeded)
		if x := w.phase("canceled", model.TestInProgress); *x.Status.FinalState.Canceled.CanceledBy != "apiRequest" {
			t.Errorf("it is %+v", x.Status.FinalState.Canceled)
		}
	})
}
