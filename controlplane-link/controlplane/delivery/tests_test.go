package delivery_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/smarttests"
	"switchyard.dev/controlplane-link/controlplane/teststore"
	v2 "switchyard.dev/protos/controlplane/v2"
	crdv1 "switchyard.dev/protos/crd/v1"
)

func (s *site) tests() teststore.Store { return teststore.Store{Store: s.store} }

// triggered waits for executions of a sandbox, the newest first, that have phases.
func (s *site) triggered(sandbox string, phases ...v2.TestexecutionsPhase) []model.TestExecution {
	s.Helper()
	var all []model.TestExecution
	s.Eventually(fmt.Sprintf("executions of sandbox %s that are %v", sandbox, phases), func() (err error) {
		all, err = s.tests().Executions(s.Context(), org, teststore.List{Most: 100, Newest: true, Keep: func(x model.TestExecution) bool { return x.Sandbox == sandbox }})
		var is []v2.TestexecutionsPhase
		for _, x := range all {
			is = append(is, x.Status.Phase)
		}
		if err == nil && fmt.Sprint(is) != fmt.Sprint(phases) {
			err = fmt.Errorf("they are %v", is)
		}
		return err
	})
	return all
}

// TestARevisionThatIsReadyTriggersTests once, and ends those of the revision before.
func TestARevisionThatIsReadyTriggersTests(t *testing.T) {
	s := newSite(t)
	name, key := unique("triggers")
	of, _ := unique("of-" + name)
	_, err := s.tests().PutTest(t.Context(), model.Test{Org: org, Name: of, UpdatedAt: time.Now(), Spec: v2.TestSpec{
		Script: new("x = 1"), Triggers: []v2.TestTrigger{{ID: new("one"), SandboxOf: &v2.WorkloadWorkload{Kind: "Deployment", Namespace: "shop", Name: "cart"}}},
	}}, event("test.apply"))
	s.Must(err)
	t.Cleanup(func() { s.Must(s.tests().DeleteTest(context.Background(), org, of, event("test.delete"))) })
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
	phases := []v2.TestexecutionsPhase{model.TestPending}
	for range smarttests.MostAtOnce {
		phases = append(phases, model.TestInProgress)
	}
	all := s.triggered(name, phases...)
	oldest := all[len(all)-1]
	for _, side := range smarttests.Sides(oldest) {
		j, err := s.jobs().Job(t.Context(), org, smarttests.JobName(oldest.ID, side))
		s.Must(err)
		_, err = s.jobs().Observe(t.Context(), j, j.Attempt.Ended(model.PhaseFailed, "", "Test", "its pod was deleted", time.Now()))
		s.Must(err)
	}
	s.Must(s.tests().Cancel(t.Context(), org, oldest.ID, time.Now(), event("testexecution.cancel"))) // it is reconciled
	phases[0], phases[len(phases)-1] = model.TestInProgress, model.TestCanceled
	s.triggered(name, phases...)
}
