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

	"switchyard.dev/controlplane-link/controlplane/delivery/recordings"
	"switchyard.dev/controlplane-link/controlplane/jobstore"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/smarttests"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/controlplane/teststore"
	crdv1 "switchyard.dev/protos/crd/v1"
)

// tests has the executions of Smart Tests.
func (s *site) tests() teststore.Store { return teststore.Store{Store: s.Store} }

// recordingsAgain is when recordings that have not begun are read again.
const recordingsAgain = time.Second

// recordings has the requests behind tests.
func (s *site) recordings() recordings.Recordings {
	return recordings.Recordings{Captures: s.Captures, Tests: s.tests(), Live: s.live, Event: s.eventOf}
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
		if ready, err := s.recordings().Begin(ctx, &x); err != nil {
			return again, err
		} else if !ready {
			return reconcile.Result{RequeueAfter: recordingsAgain}, nil
		}
		if err := s.submitJobs(ctx, &x); errors.Is(err, model.ErrTooMany) || errors.Is(err, errOtherGroup) {
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
		if deleted, failed := s.isDeleted(ctx, x, name); deleted || failed != nil {
			return fmt.Sprintf("%q was deleted.", name), failed
		}
		return "", err
	}
	if _, is := refusal(err); is {
		return fmt.Sprintf("The author of the run has no right to its sandbox or route group: %v.", err), nil
	}
	return "", err
}

// isDeleted reports whether the sandbox or route group of an execution was deleted.
func (s *site) isDeleted(ctx context.Context, x model.TestExecution, name string) (bool, error) {
	of, err := s.Store.Sandbox(ctx, x.Org, name)
	if x.Sandbox == "" {
		var g model.RouteGroup
		g, err = s.Store.RouteGroup(ctx, x.Org, name)
		of = model.Sandbox(g)
	}
	if errors.Is(err, model.ErrNotFound) {
		return true, nil
	}
	return err == nil && !of.DeletedAt.IsZero(), err
}

// errOtherGroup is the error for a runner group with the name of that of Smart Tests.
var errOtherGroup = errors.New("it is not that of Smart Tests: delete it, and run the test again")

// submitJobs submits the jobs of an execution and, for the first one of the cluster, its runner group, all in the name of the control
// plane itself. It can be repeated. The error can wrap model.ErrTooMany or errOtherGroup.
func (s *site) submitJobs(ctx context.Context, x *model.TestExecution) error {
	now := time.Now().UTC().Truncate(time.Microsecond)
	g := smarttests.Group(x.Org, x.Cluster, now)
	is, err := s.jobs().Group(ctx, g.Org, g.Name)
	if errors.Is(err, model.ErrNotFound) {
		is, err = s.jobs().PutGroup(ctx, g, s.eventOf(g.Org, store.RunnerGroup, g.Name, "create"))
	}
	if err == nil && is.Namespace != g.Namespace {
		err = fmt.Errorf("runner group %q is in namespace %s: %w", is.Name, is.Namespace, errOtherGroup)
	}
	if err != nil {
		return err
	}
	for _, side := range smarttests.Sides(*x) {
		j, err := smarttests.Job(*x, side, s.SmartTest, g.Name, now)
		if err != nil {
			return err
		}
		_, err = s.jobs().Job(ctx, j.Org, j.Name)
		if errors.Is(err, model.ErrNotFound) {
			_, err = s.jobs().Submit(ctx, j, s.eventOf(j.Org, store.Job, j.Name, "submit"))
		}
		if err != nil {
			return err
		}
		if side == smarttests.Target {
			x.Status.TargetJob = &j.Name
		} else {
			x.Status.BaselineJob = &j.Name
		}
	}
	_, err = s.tests().Observe(ctx, *x, time.Time{})
	return err
}

const (
	// outputAgain is when output is read again that is not stored yet.
	outputAgain = 5 * time.Second
	// concludeAgain is when an execution tries to end again, while another one ends.
	concludeAgain = time.Second
)

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
		again.RequeueAfter = concludeAgain
		return again, nil
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
			again.RequeueAfter = outputAgain
			return again, nil
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
		is, err := s.follows(ctx, j)
		if is || err != nil {
			return problem, false, err
		}
		from, err = s.Output(ctx, j) // it can have been stored in between
		if from == nil || err != nil {
			return problem, err == nil, err
		}
	}
	if err != nil {
		return problem, false, err
	}
	defer func() { _ = from.Close() }() // it was only read
	p := smarttests.Read(from)
	if p.Problem != "" {
		p = problem
	}
	return p, true, nil
}

// follows reports whether the cluster has the output of a job that has ended, or is to have it.
func (s *site) follows(ctx context.Context, j model.Job) (bool, error) {
	o, err := existing(ctx, s.live, client.ObjectKey{Name: j.Name}, &crdv1.Job{})
	if o == nil || err != nil || o.Status.Execution == nil {
		return false, err
	}
	e := o.Status.Execution
	return e.Begun && (e.Output == nil || e.Output.State == crdv1.OutputKept), nil
}

// endExecution records the end of an execution. Another one can begin.
func (s *site) endExecution(ctx context.Context, x model.TestExecution) error {
	if err := s.recordings().End(ctx, x); err != nil {
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
		_, failed := s.tests().Submit(ctx, x, s.eventOf(x.Org, store.TestExecution, x.ID, "trigger"))
		switch {
		case errors.Is(failed, model.ErrTooMany):
			s.Logger.Warn("a sandbox does not trigger a test", "organisation", x.Org, "sandbox", x.Sandbox, "test", x.Test, "error", failed)
		case !errors.Is(failed, model.ErrExists):
			err = errors.Join(err, failed)
		}
	}
	return err
}
