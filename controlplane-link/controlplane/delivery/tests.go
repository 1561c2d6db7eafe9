package delivery

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"switchyard.dev/controlplane-link/controlplane/delivery/testrun"
	"switchyard.dev/controlplane-link/controlplane/jobstore"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/smarttests"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/controlplane/teststore"
	crdv1 "switchyard.dev/protos/crd/v1"
)

// tests has the executions of Smart Tests.
func (s *site) tests() teststore.Store { return teststore.Store{Store: s.Store} }

// recordingsAgain is when recordings are read again that have not begun, outputAgain when output is that is not stored yet, and
// concludeAgain when an execution tries to end again, while another one ends.
const recordingsAgain, outputAgain, concludeAgain = time.Second, 5 * time.Second, time.Second

// testRuns has the jobs and recordings of executions.
func (s *site) testRuns() testrun.Runs {
	return testrun.Runs{Tests: s.tests(), Jobs: s.jobs(), Captures: s.Captures, Live: s.live, Program: s.SmartTest, Event: s.eventOf}
}

// followJob enqueues the execution that a job is a side of, if it is one.
func (s *site) followJob(job string) {
	if id, is := smarttests.IDOf(job); is {
		s.add(request{store.TestExecution, id})
	}
}

// addExecutions enqueues the executions that have not ended.
func (s *site) addExecutions(ctx context.Context) error {
	ids, err := s.tests().Unended(ctx, s.at.Organisation, s.at.Name)
	for _, id := range ids {
		s.add(request{store.TestExecution, id})
	}
	return err
}

// reconcileExecution brings one execution further.
func (s *site) reconcileExecution(ctx context.Context, id string) (again reconcile.Result, err error) {
	x, err := s.tests().Execution(ctx, s.at.Organisation, id)
	if err != nil || x.Cluster != s.at.Name || x.Ended() {
		return again, ignoreMissing(err)
	}
	if x.Status.Phase == model.TestPending {
		refusal, err := s.mayRun(ctx, x)
		if err != nil {
			return again, err
		}
		if refusal != "" {
			return again, s.endExecution(ctx, smarttests.Failed(x, refusal, time.Now()))
		}
		x.Status.Phase, x.Status.StartedAt = model.TestInProgress, new(time.Now().UTC().Format(time.RFC3339))
		s.beginning.Lock()
		is, err := s.tests().Begin(ctx, x, smarttests.MostAtOnce)
		s.beginning.Unlock()
		if !is || err != nil {
			return again, err // the end of another one enqueues it
		}
	}
	if x.Status.BaselineJob == nil && x.CanceledAt.IsZero() {
		if ready, err := s.testRuns().Record(ctx, &x); err != nil {
			return again, err
		} else if !ready {
			return reconcile.Result{RequeueAfter: recordingsAgain}, nil
		}
		if err := s.testRuns().Submit(ctx, &x); errors.Is(err, model.ErrTooMany) || errors.Is(err, testrun.ErrOtherGroup) {
			return again, errors.Join(s.cancelJobs(ctx, x), s.endExecution(ctx, smarttests.Failed(x, err.Error(), time.Now())))
		} else if err != nil {
			return again, err
		}
	}
	return s.followExecution(ctx, x)
}

// mayRun asks the cluster whether the author of an execution can read its sandbox or route group, or any sandbox for the baseline
// alone. It returns why not; empty: it runs.
func (s *site) mayRun(ctx context.Context, x model.TestExecution) (why string, err error) {
	as, err := s.as(x.Author)
	if err != nil {
		return "", err
	}
	name, group := x.Sandbox, ""
	if r := x.Spec.ExecutionContext.Routing; r != nil && r.Routegroup != nil {
		group = *r.Routegroup
	}
	switch {
	case name != "":
		err = as.Get(ctx, client.ObjectKey{Name: name}, &crdv1.SignadotSandbox{})
	case group != "":
		name, err = group, as.Get(ctx, client.ObjectKey{Name: group}, &crdv1.SignadotRouteGroup{})
	default:
		err = as.List(ctx, &crdv1.SignadotSandboxList{}, client.Limit(1))
	}
	if apierrors.IsNotFound(err) { // it can be about to be written
		if deleted, failed := testrun.IsDeleted(ctx, s.Store, x, name); deleted || failed != nil {
			return fmt.Sprintf("%q was deleted.", name), failed
		}
		return "", err
	}
	if _, is := refusal(err); is {
		return fmt.Sprintf("The author of the run has no right to its sandbox or route group: %v.", err), nil
	}
	return "", err
}

// followExecution ends an execution when its jobs have ended, and cancels the jobs of one that is being canceled.
func (s *site) followExecution(ctx context.Context, x model.TestExecution) (again reconcile.Result, err error) {
	jobs, ended := map[smarttests.Side]model.Job{}, true
	for _, side := range smarttests.Sides(x) {
		j, err := s.jobs().Job(ctx, x.Org, smarttests.JobName(x.ID, side))
		switch {
		case errors.Is(err, model.ErrNotFound):
			continue
		case err != nil:
			return again, err
		case !j.Attempt.Phase.Final():
			ended = false
		}
		jobs[side] = j
	}
	switch {
	case ended:
		return s.conclude(ctx, x, jobs)
	case !x.CanceledAt.IsZero():
		return again, s.cancelJobs(ctx, x)
	}
	return again, nil
}

// cancelJobs cancels the jobs of an execution.
func (s *site) cancelJobs(ctx context.Context, x model.TestExecution) (err error) {
	for _, side := range smarttests.Sides(x) {
		name := smarttests.JobName(x.ID, side)
		_, failed := s.jobs().Cancel(ctx, x.Org, name, time.Now().UTC(), s.eventOf(x.Org, store.Job, name, "cancel"))
		if !errors.Is(failed, jobstore.ErrEnded) && !errors.Is(failed, model.ErrNotFound) {
			err = errors.Join(err, failed)
		}
	}
	return err
}

// conclude ends an execution of which the jobs have ended, one at a time: their output takes memory.
func (s *site) conclude(ctx context.Context, x model.TestExecution, jobs map[smarttests.Side]model.Job) (again reconcile.Result, err error) {
	if !s.concluding.TryLock() {
		return reconcile.Result{RequeueAfter: concludeAgain}, nil
	}
	defer s.concluding.Unlock()
	printed := map[smarttests.Side]smarttests.Printed{}
	for _, side := range smarttests.Sides(x) {
		j, is := jobs[side]
		if !is {
			printed[side] = smarttests.Printed{Problem: "its job was deleted"}
			continue
		}
		p, is, err := s.printed(ctx, j)
		if err != nil {
			return again, err
		}
		if !is {
			return reconcile.Result{RequeueAfter: outputAgain}, nil
		}
		printed[side] = p
	}
	return again, s.endExecution(ctx, smarttests.Conclude(x, printed, time.Now()))
}

// printed reads the stored output of a job that has ended; false: it is not stored yet.
func (s *site) printed(ctx context.Context, j model.Job) (smarttests.Printed, bool, error) {
	a := j.Attempt
	problem := smarttests.Printed{Problem: "job " + j.Name + " has no results: " + a.Message}
	if s.Output == nil || a.Executions == 0 || a.Output != crdv1.OutputKept {
		return problem, true, nil
	}
	from, err := s.Output(ctx, j)
	if from == nil && err == nil {
		if is, err := s.follows(ctx, j); is || err != nil {
			return problem, false, err
		}
		from, err = s.Output(ctx, j) // it can have been stored in between
	}
	if from == nil || err != nil {
		return problem, err == nil, err
	}
	defer func() { _ = from.Close() }() // it was only read
	if p := smarttests.Read(from); p.Problem == "" {
		return p, true, nil
	}
	return problem, true, nil
}

// follows reports whether the cluster has the output of a job that has ended, or is to have it.
func (s *site) follows(ctx context.Context, j model.Job) (bool, error) {
	o, err := existing(ctx, s.live, client.ObjectKey{Name: j.Name}, &crdv1.Job{})
	if o == nil || err != nil || o.Status.Execution == nil {
		return false, err
	}
	return o.Status.Execution.Begun && (o.Status.Execution.Output == nil || o.Status.Execution.Output.State == crdv1.OutputKept), nil
}

// endExecution records the end of an execution. Another one can begin.
func (s *site) endExecution(ctx context.Context, x model.TestExecution) error {
	if err := s.testRuns().EndRecording(ctx, x); err != nil {
		return err
	}
	if _, err := s.tests().Observe(ctx, x, time.Now().UTC()); err != nil {
		return err
	}
	return s.addExecutions(ctx)
}

// trigger adds the executions that a revision of a sandbox triggers which has become ready. It can be repeated. Without room for them
// they are not run.
func (s *site) trigger(ctx context.Context, of model.Sandbox) error {
	if s.Output == nil { // they have no results
		return nil
	}
	all, err := s.tests().Tests(ctx, of.Org)
	for _, x := range smarttests.Triggered(all, of) {
		x.ID, x.CreatedAt = strings.ToLower(rand.Text()[:13]), time.Now().UTC().Truncate(time.Microsecond)
		if _, failed := s.tests().Submit(ctx, x, s.eventOf(x.Org, store.TestExecution, x.ID, "trigger")); errors.Is(failed, model.ErrTooMany) {
			s.Logger.Warn("a sandbox does not trigger a test", "organisation", x.Org, "sandbox", x.Sandbox, "test", x.Test, "error", failed)
		} else if !errors.Is(failed, model.ErrExists) {
			err = errors.Join(err, failed)
		}
	}
	return err
}
