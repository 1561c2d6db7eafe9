package captures_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"switchyard.dev/controlplane-link/controlplane/jobstore"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/smarttests"
	v2 "switchyard.dev/protos/controlplane/v2"
	"switchyard.dev/tests/link/deliveries"
)

// until waits until an execution of a test is as a check wants it.
func (s *site) until(x v2.TestExecution, what string, check func(v2.TestExecution) bool) (now v2.TestExecution) {
	s.Helper()
	s.Eventually("the execution "+what, func() error {
		now = v2.TestExecution{}
		if s.does(http.MethodGet, "tests/executions/"+x.ID, "", &now); !check(now) {
			return fmt.Errorf("it is %+v", now.Status)
		}
		return nil
	})
	return now
}

// submit runs a script on the sandbox.
func (s *site) submit(script string) (x v2.TestExecution) {
	s.Helper()
	s.does(http.MethodPost, "tests/executions/", fmt.Sprintf(`{"spec": {"executionContext": {"routing": {"sandbox": %q}}, "external": {"testName": "t", "script": %q}}}`, s.Namespace, script), &x)
	return x
}

// finish ends the jobs of an execution, as the operator does.
func (s *site) finish(x v2.TestExecution) {
	s.Helper()
	all := jobstore.Store{Store: s.main.Store()}
	for _, side := range []smarttests.Side{smarttests.Target, smarttests.Baseline} {
		j, err := all.Job(s.Context(), deliveries.Organisation, smarttests.JobName(x.ID, side))
		s.Must(err)
		_, err = all.Observe(s.Context(), j, j.Attempt.Ended(model.PhaseFailed, "", "Test", "its pod was deleted", time.Now()))
		s.Must(err)
	}
}

// smartTest: the requests behind the calls of a Smart Test are recorded for as long as it runs, and no other ones.
func (s *site) smartTest(t *testing.T) {
	t.Helper()
	s.does(http.MethodPut, "sandboxes/"+s.Namespace, fmt.Sprintf(`{"name": %q, "spec": {"cluster": "prod", "forks": [{"forkOf": {"kind": "Deployment", "namespace": %q, "name": "cart"}, "customizations": {"env": [{"name": "A", "value": "b"}]}}]}}`, s.Namespace, s.Namespace), nil)

	x := s.submit("http.get('http://cart', capture=True)")
	in := s.Created()
	if in.Spec.Traces != smarttests.Traces(x.ID) || in.Spec.Lease == nil || in.Spec.Lease.Seconds != 120 {
		t.Errorf("the object is %+v", in.Spec)
	}
	s.Attached(in, "False", "the container does not listen yet")
	name := smarttests.Recording(x.ID, s.Namespace)
	c := s.is(v2.Capture{Name: name}, "waits", func(c v2.Capture) bool {
		return strings.Contains(ptr.Deref(c.Status.Message, ""), "does not listen yet")
	})
	x = s.until(x, "names its capture", func(x v2.TestExecution) bool { return len(x.Status.Captures) == 1 })
	if of := x.Status.Captures[0]; of.Name != name || of.Sandbox != s.Namespace || of.Message != nil || x.Status.TargetJob != nil || ptr.Deref(c.Status.TestExecution, "") != x.ID {
		t.Errorf("the execution is %+v", x.Status)
	}
	s.stop()
	s.begin(t)
	s.Attached(in, "True", "every request is recorded")
	x = s.until(x, "has jobs", func(x v2.TestExecution) bool { return x.Status.BaselineJob != nil })
	j, err := jobstore.Store{Store: s.main.Store()}.Job(t.Context(), deliveries.Organisation, *x.Status.TargetJob)
	s.Must(err)
	if !strings.Contains(string(j.Spec), smarttests.Traces(x.ID)) {
		t.Errorf("the job is %s", j.Spec)
	}
	s.Deliver("one", in, 3, 1, 2)
	s.sees(c, "/1", "/2")
	s.finish(x)
	s.stop() // another session reads the jobs
	s.begin(t)
	s.until(x, "has ended", func(x v2.TestExecution) bool { return x.Status.FinishedAt != nil })
	s.Detached(in)
	c = s.is(c, "has ended", ended)
	s.holds(c)
	s.sees(c, "/1", "/2")
	s.isolated(t, c)

	s.canceled(t)
	x = s.submit("# without a capture\nhttp.get('http://cart')")
	if x = s.until(x, "has jobs", func(x v2.TestExecution) bool { return x.Status.BaselineJob != nil }); x.Status.Captures != nil {
		t.Errorf("a test without captures: %+v", x.Status)
	}
}

// canceled: while it waits for its capture, an execution is canceled, and the capture ends.
func (s *site) canceled(t *testing.T) {
	t.Helper()
	x := s.submit("http.get('http://cart', capture=True)")
	in := s.Created()
	s.does(http.MethodPut, "tests/executions/"+x.ID+"/cancel", "", nil)
	s.until(x, "is canceled", func(x v2.TestExecution) bool { return x.Status.Phase == "canceled" && x.Status.FinishedAt != nil })
	s.Detached(in)
	s.is(v2.Capture{Name: smarttests.Recording(x.ID, s.Namespace)}, "has ended", ended)
}
