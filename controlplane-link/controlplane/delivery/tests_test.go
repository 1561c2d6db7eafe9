package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/smarttests"
	"switchyard.dev/controlplane-link/controlplane/teststore"
	v2 "switchyard.dev/protos/controlplane/v2"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/world"
)

func (s *site) tests() teststore.Store { return teststore.Store{Store: s.store} }

// triggered waits for executions of a sandbox, the newest first, that have phases, in any order.
func (s *site) triggered(sandbox string, phases ...v2.TestexecutionsPhase) []model.TestExecution {
	s.Helper()
	var all []model.TestExecution
	s.Eventually(fmt.Sprintf("executions of sandbox %s that are %v", sandbox, phases), func() (err error) {
		all, err = s.tests().Executions(s.Context(), org, teststore.List{Most: 100, Newest: true, Keep: func(x model.TestExecution) bool { return x.Sandbox == sandbox }})
		var is []v2.TestexecutionsPhase
		for _, x := range all {
			is = append(is, x.Status.Phase)
		}
		slices.Sort(is)
		if err == nil && !slices.Equal(is, slices.Sorted(slices.Values(phases))) {
			err = fmt.Errorf("they are %v", is)
		}
		return err
	})
	return all
}

// newTestSite has a cluster with the namespace of Smart Tests. output is Config.Output.
func newTestSite(t *testing.T, output func() (io.ReadCloser, error)) *site {
	t.Helper()
	s := siteWith(t, world.Shared(t), nil)
	s.output = func(context.Context, model.Job) (io.ReadCloser, error) { return output() }
	s.Must(client.IgnoreAlreadyExists(s.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: crdv1.SmartTestsNamespace}})))
	s.Must(s.Client.DeleteAllOf(t.Context(), &crdv1.JobRunnerGroup{}, client.InNamespace(crdv1.SmartTestsNamespace))) // of another store
	s.start()
	return s
}

// never is the output of jobs that is never stored.
func never() (io.ReadCloser, error) { return nil, nil }

// trigger adds a test that sandboxes with a fork of shop/cart trigger.
func (s *site) trigger(name string) {
	s.Helper()
	_, err := s.tests().PutTest(s.Context(), model.Test{Org: org, Name: name, UpdatedAt: time.Now(), Spec: v2.TestSpec{
		Script: new("x = 1"), Triggers: []v2.TestTrigger{{ID: new("one"), SandboxOf: &v2.WorkloadWorkload{Kind: "Deployment", Namespace: "shop", Name: "cart"}}},
	}}, event("test.apply"))
	s.Must(err)
}

// run submits an execution on the baseline alone.
func (s *site) run() model.TestExecution {
	s.Helper()
	_, key := unique("run")
	x := model.TestExecution{Org: org, ID: key, Cluster: prod, Test: "t", Script: "x = 1", Timeout: time.Minute, CreatedAt: time.Now(), Author: jo}
	x.Spec.ExecutionContext = &v2.TestExecutionContext{}
	x, err := s.tests().Submit(s.Context(), x, event("testexecution.submit"))
	s.Must(err)
	return x
}

// jobOf waits for the job of an execution on the baseline in the cluster.
func (s *site) jobOf(x model.TestExecution) *crdv1.Job {
	s.Helper()
	return s.jobObject(smarttests.JobName(x.ID, smarttests.Baseline), exists)
}

// jobEnds has the operator report the end of a job, with its execution.
func (s *site) jobEnds(o *crdv1.Job, execution crdv1.JobExecution) {
	s.Helper()
	s.set(o, func(o *crdv1.Job) {
		o.Status.Execution = &execution
		o.Status.State = &crdv1.JobState{Terminated: &crdv1.JobTerminated{Success: true, FinishedAt: &metav1.Time{Time: time.Now()}}}
	})
	s.phase(o.Name, model.PhaseSucceeded)
}

// testEnds waits for the end of an execution, and returns why it has failed.
func (s *site) testEnds(x model.TestExecution, want v2.TestexecutionsPhase) (why string) {
	s.Helper()
	s.Eventually(fmt.Sprintf("execution %s is %s", x.ID, want), func() (err error) {
		x, err = s.tests().Execution(s.Context(), org, x.ID)
		if err == nil && x.Status.Phase != want {
			err = fmt.Errorf("it is %+v", x.Status)
		}
		return err
	})
	if f := x.Status.FinalState; f != nil && f.Failed != nil {
		why = *f.Failed.Message
	}
	return why
}

// fill adds rows to a table of jobs or executions that have ended, up to the maximum of an organisation.
func (s *site) fill(statement string) {
	s.Helper()
	_, err := s.store.Database().Observe(s.Context(), `WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 20000) `+statement, org)
	s.Must(err)
}

// TestARevisionThatIsReadyTriggersTests once, and ends those of the revision before.
func TestARevisionThatIsReadyTriggersTests(t *testing.T) {
	s := newTestSite(t, never)
	name, key := unique("triggers")
	s.trigger("of-" + name)
	row := s.put(sandbox(name, key, "one"))
	o := s.applied(row)
	s.triggered(name)
	s.ready(o)
	first := s.triggered(name, model.TestInProgress)[0]
	if first.Author != jo || first.Revision != row.Generation || *first.Status.TriggeredBy.Sandbox != name {
		t.Errorf("it is %+v", first)
	}
	for _, side := range []smarttests.Side{smarttests.Target, smarttests.Baseline} {
		j := s.jobObject(smarttests.JobName(first.ID, side), func(j *crdv1.Job) bool { return true })
		if (j.Spec.RoutingContext != nil) != (side == smarttests.Target) || j.Annotations[crdv1.AnnotationAuthor] != `{"user":"switchyard:controlplane:acme"}` {
			t.Errorf("job %s is %+v", j.Name, j)
		}
	}
	s.ready(o) // again
	second := s.applied(s.put(sandbox(name, key, "two")))
	s.ready(second)
	all := s.triggered(name, model.TestInProgress, model.TestInProgress)
	if all[1].ID != first.ID || all[1].CanceledAt.IsZero() || !all[0].CanceledAt.IsZero() {
		t.Errorf("they are %+v", all)
	}
	s.jobObject(smarttests.JobName(first.ID, smarttests.Target), func(j *crdv1.Job) bool { return j.Spec.Canceled })
}

// TestTenExecutionsAreInProgress at most, and the next one begins when one has ended.
func TestTenExecutionsAreInProgress(t *testing.T) {
	s := newSite(t)
	name, key := unique("many")
	s.applied(s.put(sandbox(name, key, "one")))
	for i := range smarttests.MostAtOnce + 1 {
		x := model.TestExecution{Org: org, ID: fmt.Sprintf("%s%02d", key, i), Cluster: prod, Test: "t", Sandbox: name, RoutingKey: key, Script: "x = 1", Timeout: time.Minute, CreatedAt: time.Now(), Author: jo}
		x.Spec.ExecutionContext = &v2.TestExecutionContext{Routing: &v2.JobRoutingContext{Sandbox: &name}}
		_, err := s.tests().Submit(t.Context(), x, event("testexecution.submit"))
		s.Must(err)
	}
	phases := slices.Repeat([]v2.TestexecutionsPhase{model.TestInProgress}, smarttests.MostAtOnce)
	all := s.triggered(name, append(phases, model.TestPending)...)
	one := all[slices.IndexFunc(all, func(x model.TestExecution) bool { return x.Status.Phase == model.TestInProgress })]
	for _, side := range smarttests.Sides(one) {
		s.jobObject(smarttests.JobName(one.ID, side), exists) // else it ends at once
	}
	s.Must(s.tests().Cancel(t.Context(), org, one.ID, time.Now(), event("testexecution.cancel")))
	for _, side := range smarttests.Sides(one) {
		s.jobEnds(s.jobObject(smarttests.JobName(one.ID, side), func(j *crdv1.Job) bool { return j.Spec.Canceled }), crdv1.JobExecution{Count: 1})
	}
	s.triggered(name, append(phases, model.TestCanceled)...)
}

var kept = crdv1.JobExecution{Count: 1, Begun: true, PodUID: "p", Output: &crdv1.JobOutput{State: crdv1.OutputKept}}

// TestAnExecutionEndsWithoutItsOutput, which nothing can store any more.
func TestAnExecutionEndsWithoutItsOutput(t *testing.T) {
	s := newTestSite(t, never)
	for name, of := range map[string]crdv1.JobExecution{
		"it never begun":              {Count: 1},
		"it was released, not stored": {Count: 1, Begun: true, PodUID: "p", Output: &crdv1.JobOutput{State: crdv1.OutputReleased}},
		"its Job is deleted":          kept,
	} {
		x := s.run()
		o := s.jobOf(x)
		if s.jobEnds(o, of); of.Output == kept.Output {
			s.Remove(o)
		}
		if why := s.testEnds(x, model.TestFailed); !strings.Contains(why, "has no results") {
			t.Errorf("%s: %s", name, why)
		}
	}
}

// TestOutputIsReadOneJobAtATime: any member can have jobs print much.
func TestOutputIsReadOneJobAtATime(t *testing.T) {
	var reading, most atomic.Int64
	release := make(chan struct{})
	s := newTestSite(t, func() (io.ReadCloser, error) {
		if n := reading.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer reading.Add(-1)
		<-release
		return io.NopCloser(strings.NewReader(`{"tests":[{"reason":"Completed"}]}`)), nil
	})
	var all []model.TestExecution
	for range 3 {
		all = append(all, s.run())
		s.jobEnds(s.jobOf(all[len(all)-1]), kept)
	}
	close(release)
	for _, x := range all {
		s.testEnds(x, model.TestSucceeded)
	}
	if n := most.Load(); n != 1 {
		t.Errorf("the output of %d jobs was read at once", n)
	}
}

// TestASandboxIsReadyWithTooManyExecutions: its tests are not run.
func TestASandboxIsReadyWithTooManyExecutions(t *testing.T) {
	s := newTestSite(t, never)
	s.trigger("t")
	s.fill(`INSERT INTO test_executions (organisation, id, sequence, cluster, test, run, sandbox, routing_key, revision, trigger_id, script, timeout, created, canceled, author, spec, status, results, finished, phase, passed, failed, green, yellow, red)
		SELECT $1, 'full' || n, -n, 'prod', 't', '', '', '', 0, '', '', 0, 0, 0, '', '', '', '', 1, 'succeeded', 0, 0, 0, 0, 0 FROM n`)
	name, key := unique("full")
	s.ready(s.applied(s.put(sandbox(name, key, "one"))))
	s.status(name, func(st model.Status) bool { return st.Ready })
	if !strings.Contains(s.log.String(), "too many executions of tests") {
		t.Error("the log does not have the reason")
	}
}

// TestAnExecutionWithTooManyJobs has failed, and its first job is canceled.
func TestAnExecutionWithTooManyJobs(t *testing.T) {
	s := newTestSite(t, never)
	s.fill(`INSERT INTO jobs (organisation, name, runner_group, cluster, namespace, sandbox, routing_key, spec, sequence, generation, created, canceled, deleted, group_deleted, attempted, finished, phase, author, attempt)
		SELECT $1, 'full' || n, 'g', 'prod', 'default', '', '', '', -n, 1, 0, 0, 0, 0, 1, 1, 'succeeded', '', '' FROM n WHERE n < 20000`)
	name, key := unique("full")
	s.applied(s.put(sandbox(name, key, "one")))
	x := model.TestExecution{Org: org, ID: key, Cluster: prod, Test: "t", Sandbox: name, RoutingKey: key, Script: "x = 1", Timeout: time.Minute, CreatedAt: time.Now(), Author: jo}
	x.Spec.ExecutionContext = &v2.TestExecutionContext{Routing: &v2.JobRoutingContext{Sandbox: &name}}
	x, err := s.tests().Submit(t.Context(), x, event("testexecution.submit"))
	s.Must(err)
	if why := s.testEnds(x, model.TestFailed); !strings.Contains(why, "too many jobs") {
		t.Error(why)
	}
	if j, err := s.jobs().Job(t.Context(), org, smarttests.JobName(x.ID, smarttests.Target)); err != nil || j.CanceledAt.IsZero() && !j.Attempt.Phase.Final() {
		t.Errorf("the job of the sandbox: %+v, %v", j, err)
	}
}

// TestAnExecutionIsCanceledBeforeItsJobs: none is submitted.
func TestAnExecutionIsCanceledBeforeItsJobs(t *testing.T) {
	s := siteWith(t, world.Shared(t), nil)
	x := s.run()
	x.Status.Phase = model.TestInProgress
	if is, err := s.tests().Begin(t.Context(), x, 10); !is || err != nil {
		t.Fatal(is, err)
	}
	s.Must(s.tests().Cancel(t.Context(), org, x.ID, time.Now(), event("testexecution.cancel")))
	s.start()
	s.testEnds(x, model.TestCanceled)
	if _, err := s.jobs().Job(t.Context(), org, smarttests.JobName(x.ID, smarttests.Baseline)); !errors.Is(err, model.ErrNotFound) {
		t.Errorf("its job: %v", err)
	}
}

// TestAnExecutionIsCanceledBeforeItsJobIsWritten to the cluster, where others wait.
func TestAnExecutionIsCanceledBeforeItsJobIsWritten(t *testing.T) {
	s := newTestSite(t, never)
	s.fill(`INSERT INTO jobs (organisation, name, runner_group, cluster, namespace, sandbox, routing_key, spec, sequence, generation, created, canceled, deleted, group_deleted, attempted, finished, phase, author, attempt)
		SELECT $1, 'before' || n, 'smart-tests-prod', 'another', 'default', '', '', '', -n, 1, 0, 0, 0, 0, 1, 0, 'queued', '', '' FROM n WHERE n <= 1000`)
	x := s.run()
	s.Eventually("its job is submitted", func() error {
		x, err := s.tests().Execution(t.Context(), org, x.ID)
		if err == nil && x.Status.BaselineJob == nil {
			err = errors.New("it is not")
		}
		return err
	})
	s.Must(s.tests().Cancel(t.Context(), org, x.ID, time.Now(), event("testexecution.cancel")))
	s.testEnds(x, model.TestCanceled)
	if j, err := s.jobs().Job(t.Context(), org, smarttests.JobName(x.ID, smarttests.Baseline)); err != nil || !j.Attempted.IsZero() {
		t.Errorf("its job: %+v, %v", j, err)
	}
}

// TestTheGroupOfTestsIsMadeAgain when it was deleted in the cluster: no user can apply it.
func TestTheGroupOfTestsIsMadeAgain(t *testing.T) {
	s := newTestSite(t, never)
	s.jobOf(s.run())
	key := client.ObjectKey{Namespace: crdv1.SmartTestsNamespace, Name: "smart-tests-prod"}
	first, second := &crdv1.JobRunnerGroup{}, &crdv1.JobRunnerGroup{}
	s.Eventually("the group is applied", func() error {
		g, err := s.jobs().Group(t.Context(), org, key.Name)
		if err == nil && g.Status.Applied != g.Generation {
			err = fmt.Errorf("it is %+v", g.Status)
		}
		return errors.Join(err, s.Client.Get(t.Context(), key, first))
	})
	s.Remove(first)
	s.Eventually("another group", func() error { return s.Client.Get(t.Context(), key, second) })
	if second.UID == first.UID {
		t.Error("it is the same one")
	}
}

// TestAGroupOfAUserHasNoTests: they would run as the control plane in a pod of the user.
func TestAGroupOfAUserHasNoTests(t *testing.T) {
	s := newTestSite(t, never)
	s.group("smart-tests-prod", `{}`)
	if why := s.testEnds(s.run(), model.TestFailed); !strings.Contains(why, `runner group "smart-tests-prod" is in namespace default`) {
		t.Error(why)
	}
}
