package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"switchyard.dev/controlplane-link/controlplane/delivery/observed"
	"switchyard.dev/controlplane-link/controlplane/desired"
	"switchyard.dev/controlplane-link/controlplane/jobstore"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/jobs"
	"switchyard.dev/workflows/jobs/published"
)

const (
	// collectors is how many jobs of a cluster are collected at once.
	collectors = 8
	// collectAgain is when a collection that has failed is tried again.
	collectAgain = 5 * time.Second
)

// usual are the reasons for waiting that are not recorded: jobs have them for a while, and the status of their runner group
// has the cause.
var usual = map[string]bool{"": true, jobs.ReasonNoIdlePod: true, jobs.ReasonNoPods: true, jobs.ReasonPodsNotReady: true, jobs.ReasonRunnerGroupNotFound: true}

// jobs has the jobs and runner groups.
func (s *site) jobs() jobstore.Store { return jobstore.Store{Store: s.Store} }

// decideJob returns the next step for a job and its object; nil: there is none. live: the API server was asked. observe
// with no object is nothing to do.
func decideJob(j model.Job, o *crdv1.Job, live bool, now time.Time) step {
	deleted, final := !j.DeletedAt.IsZero(), j.Attempt.Phase.Final()
	if o != nil && o.Annotations[crdv1.AnnotationJobSequence] == fmt.Sprint(j.Sequence) {
		switch {
		case o.DeletionTimestamp != nil:
			return observe
		case deleted:
			return remove
		case crdv1.GenerationOf(o) < j.Generation && !final:
			return apply
		}
		return observe
	}
	switch {
	case final && !deleted:
		return observe
	case !live:
		return confirm
	case deleted:
		return finish
	case o != nil:
		return foreign
	case j.Attempt.Seen, !j.Attempted.IsZero() && j.Attempt.Reason == "" && now.Sub(j.Attempted) > crdv1.JobUnanswered:
		return missing
	}
	return apply
}

// reconcileJob brings one job in line with its row.
func (s *site) reconcileJob(ctx context.Context, name string) (again reconcile.Result, err error) {
	j, err := s.jobs().Job(ctx, s.at.Organisation, name)
	if err != nil || j.Cluster != s.at.Name {
		return again, ignoreMissing(err)
	}
	if _, seen := s.seen.Load(name); seen {
		j.Attempt.Seen = true
	}
	var o *crdv1.Job
	do := confirm
	for _, from := range []client.Reader{s.cache, s.live} {
		if do != confirm {
			break
		}
		if o, err = existing(ctx, from, client.ObjectKey{Name: name}, &crdv1.Job{}); err != nil {
			return again, err
		}
		do = decideJob(j, o, from == s.live, time.Now())
	}
	switch do {
	case apply:
		return s.applyJob(ctx, j, o)
	case remove:
		return again, s.delete(ctx, j.Author, o, client.Preconditions{UID: &o.UID})
	case finish:
		if s.Discard != nil {
			if err := s.Discard(ctx, j); err != nil {
				return again, err
			}
		}
		return again, s.jobs().Finish(ctx, j.Org, j.Name, s.eventOf(j.Org, store.Job, j.Name, "deleted"))
	case foreign:
		return again, s.endJob(ctx, j, "ManagedByOther", observed.ManagedByOther(o, s.at.Name))
	case missing:
		return again, s.endJob(ctx, j, "JobDeleted", fmt.Sprintf("Its Job was deleted in cluster %s before its outcome was read.", s.at.Name))
	}
	if o == nil {
		if j.Attempt.Phase.Final() { // one that is canceled in the queue ends without an object
			s.followJob(name)
		}
		return again, nil
	}
	s.seen.Store(name, true)
	return again, s.observeJob(ctx, j, o)
}

// applyJob writes the object of a job, unless there are enough of its group in the cluster.
func (s *site) applyJob(ctx context.Context, j model.Job, o *crdv1.Job) (again reconcile.Result, err error) {
	s.add(request{store.RunnerGroup, j.Group})
	if j.Attempted.IsZero() {
		if is, err := s.mayBegin(ctx, j); !is || err != nil {
			return again, err
		}
	}
	want, fault := desired.Job(j)
	if fault != nil {
		return again, s.endJob(ctx, j, observed.ReasonInvalid, fault.Error())
	}
	if is, err := s.jobs().Attempt(ctx, j, time.Now()); err != nil || !is {
		again.RequeueAfter = soon
		return again, err
	}
	if _, err = s.send(ctx, j.Author, want, o); err == nil {
		s.seen.Store(j.Name, true) // if it is deleted at once it is not created again
	}
	if reason, is := refusal(err); is {
		a := j.Attempt
		a.Reason, a.Message = reason, err.Error()
		_, failed := s.jobs().Observe(ctx, j, a)
		err = errors.Join(err, failed)
	}
	return again, err
}

// mayBegin reports whether a job can be written for the first time. It ends one of a deleted sandbox.
func (s *site) mayBegin(ctx context.Context, j model.Job) (bool, error) {
	if j.Sandbox != "" {
		of, err := s.Store.Sandbox(ctx, j.Org, j.Sandbox)
		switch {
		case errors.Is(err, model.ErrNotFound), err == nil && !of.DeletedAt.IsZero():
			return false, s.endJobsOf(ctx, j.Sandbox)
		case err != nil:
			return false, err
		}
	}
	before, err := s.jobs().Before(ctx, j)
	return before < crdv1.MostWaitingJobs, err
}

// endJobsOf ends the jobs of a sandbox that was deleted that are not in the cluster.
func (s *site) endJobsOf(ctx context.Context, sandbox string) error {
	return s.jobs().EndLost(ctx, s.at.Organisation, sandbox, s.eventOf(s.at.Organisation, store.Job, sandbox, "sandboxdeleted"))
}

// endJob ends a job as failed.
func (s *site) endJob(ctx context.Context, j model.Job, reason, message string) error {
	return s.recordJob(ctx, j, j.Attempt.Ended(model.PhaseFailed, "", reason, message, time.Now().UTC()))
}

// attemptOf returns the state of a job that its object reports.
func attemptOf(o *crdv1.Job, j model.Job) model.Attempt {
	a := published.AttemptOf(o)
	if a.CanceledBy == model.CanceledInternally && !j.CanceledAt.IsZero() {
		a.CanceledBy = model.CanceledByRequest
	}
	return a
}

// observeJob records the state of the object of a job, and collects its output.
func (s *site) observeJob(ctx context.Context, j model.Job, o *crdv1.Job) error {
	a := attemptOf(o, j)
	if err := s.recordJob(ctx, j, a); err != nil {
		return err
	}
	if e := o.Status.Execution; a.Phase.Final() && e != nil && e.Output != nil && e.Output.State == crdv1.OutputKept && j.DeletedAt.IsZero() {
		s.collect(j, o)
	}
	return nil
}

// recordJob records a state, if it differs from the last one in more than its usual reason. A job that leaves the queue makes room for another one.
func (s *site) recordJob(ctx context.Context, j model.Job, a model.Attempt) error {
	waits := a.Phase == model.PhaseQueued && j.Attempt.Phase == model.PhaseQueued && (usual[a.Reason] && usual[j.Attempt.Reason] || a.Reason == j.Attempt.Reason)
	if waits || observed.Same(a, j.Attempt) {
		return nil
	}
	if changed, err := s.jobs().Observe(ctx, j, a); !changed || err != nil {
		return err
	}
	s.followJob(j.Name)
	if a.Phase == j.Attempt.Phase {
		return nil
	}
	s.add(request{store.RunnerGroup, j.Group})
	next, err := s.jobs().Next(ctx, j.Org, j.Group)
	if next != "" {
		s.add(request{store.Job, next})
	}
	return err
}

// collect collects the output of a job in the background, once at a time.
func (s *site) collect(j model.Job, o *crdv1.Job) {
	if s.Collect == nil {
		return
	}
	if _, busy := s.collecting.LoadOrStore(j.Name, true); busy {
		return
	}
	s.background.Go(func() {
		defer s.collecting.Delete(j.Name)
		select {
		case s.collectors <- struct{}{}:
			defer func() { <-s.collectors }()
		case <-s.ctx.Done():
			return
		}
		if err := s.Collect(s.ctx, s.at, j, o); err != nil && s.ctx.Err() == nil {
			s.Logger.Warn("the output of a job is not collected yet", "organisation", j.Org, "cluster", s.at.Name, "job", j.Name, "error", err)
			s.runnersQueue.AddAfter(request{store.Job, j.Name}, collectAgain)
			return
		}
		s.followJob(j.Name)
	})
}

// existing reads an object; nil: there is none.
func existing[O client.Object](ctx context.Context, from client.Reader, key client.ObjectKey, o O) (_ O, err error) {
	var none O
	if err := from.Get(ctx, key, o); err != nil {
		return none, client.IgnoreNotFound(err)
	}
	return o, nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, model.ErrNotFound) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
