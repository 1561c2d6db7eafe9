package jobstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/controlplane/store/database"
)

func scanJob(r database.Row) (j model.Job, err error) {
	return j, r.Scan(&j.Org, &j.Name, &j.Group, &j.Cluster, &j.Namespace, &j.Sandbox, &j.RoutingKey, &j.Spec, &j.Sequence, &j.Generation,
		&j.CreatedAt, &j.CanceledAt, &j.DeletedAt, &j.GroupDeletedAt, &j.Attempted, database.JSON{Of: &j.Author}, database.JSON{Of: &j.Attempt})
}

func job(name string, err error) error { return about("job", name, err) }

func jobChange(j model.Job) store.Change {
	return store.Change{Kind: store.Job, Org: j.Org, Cluster: j.Cluster, Name: j.Name}
}

// Submit adds a job, which is queued, and returns it with its sequence. Errors wrap model.ErrExists (the name),
// ErrNotFound or ErrDeleting (its runner group).
func (s Store) Submit(ctx context.Context, j model.Job, ev model.Event) (model.Job, error) {
	j.Attempt.Phase = model.PhaseQueued
	err := s.Write(ctx, j.Org, ev, func(ctx context.Context, t *database.Tx, generation int64) ([]store.Change, error) {
		g, err := database.One(ctx, t, scanGroup, selectGroup, j.Org, j.Group)
		if err == nil && !g.DeletedAt.IsZero() {
			err = model.ErrDeleting
		}
		if err != nil {
			return nil, group(j.Group, err)
		}
		j.Sequence, j.Generation, j.Cluster, j.Namespace = generation, generation, g.Cluster, g.Namespace
		err = database.Must(ctx, t, model.ErrExists, insertJob, j.Org, j.Name, j.Group, j.Cluster, j.Namespace, j.Sandbox, j.RoutingKey, j.Spec, generation,
			j.CreatedAt, database.JSON{Of: j.Author}, database.JSON{Of: j.Attempt})
		if err == nil {
			err = store.Enough(ctx, t, "jobs", mostJobs, countJobs, j.Org)
		}
		return []store.Change{jobChange(j)}, err
	})
	return j, err
}

// Job returns a job, also one that is being deleted.
func (s Store) Job(ctx context.Context, org, name string) (model.Job, error) {
	j, err := database.One(ctx, s.Database().Reads(), scanJob, selectJob, org, name)
	return j, job(name, err)
}

// Jobs returns the jobs of an organisation, the newest first; with a sandbox only those in its context.
func (s Store) Jobs(ctx context.Context, org, sandbox string) (all []model.Job, err error) {
	if sandbox == "" {
		all, err = database.List(ctx, s.Database().Reads(), scanJob, selectJobs, org)
	} else {
		all, err = database.List(ctx, s.Database().Reads(), scanJob, selectJobsOf, org, sandbox)
	}
	slices.SortFunc(all, func(a, b model.Job) int { return cmp.Compare(b.Sequence, a.Sequence) })
	return all, err
}

// write writes what can change of a job.
func write(ctx context.Context, t *database.Tx, j model.Job) error {
	return database.Must(ctx, t, model.ErrNotFound, writeJob, j.Org, j.Name, j.Generation, j.CanceledAt, j.DeletedAt, j.Attempt.Phase, j.Attempt.FinishedAt,
		database.JSON{Of: j.Author}, database.JSON{Of: j.Attempt})
}

// change changes a job in a write.
func (s Store) change(ctx context.Context, org, name string, ev model.Event, do func(ctx context.Context, t *database.Tx, j *model.Job) error) (j model.Job, err error) {
	_, err = store.UnlessUnchanged(s.Write(ctx, org, ev, func(ctx context.Context, t *database.Tx, generation int64) ([]store.Change, error) {
		if j, err = database.One(ctx, t, scanJob, lockJob, org, name); err != nil {
			return nil, err
		}
		j.Generation = generation
		err := do(ctx, t, &j)
		return []store.Change{jobChange(j)}, err
	}))
	return j, job(name, err)
}

// Cancel cancels a job. One that was never written to its cluster ends at once; another one when the cluster has ended
// it. The error wraps ErrEnded if it has ended.
func (s Store) Cancel(ctx context.Context, org, name string, at time.Time, ev model.Event) (model.Job, error) {
	return s.change(ctx, org, name, ev, func(ctx context.Context, t *database.Tx, j *model.Job) error {
		switch {
		case !j.DeletedAt.IsZero():
			return model.ErrDeleting
		case j.Attempt.Phase.Final():
			return ErrEnded
		case !j.CanceledAt.IsZero():
			return store.ErrUnchanged
		case j.Attempted.IsZero():
			j.Attempt = j.Attempt.Ended(model.PhaseCanceled, model.CanceledByRequest, "Canceled", "The job was canceled before it was written to its cluster.", at)
		}
		j.CanceledAt, j.Author = at, model.Author{Principal: ev.By, Role: ev.Role}
		return write(ctx, t, *j)
	})
}

// DeleteJob makes a job a tombstone, or removes it if it was never written to its cluster.
func (s Store) DeleteJob(ctx context.Context, org, name string, at time.Time, ev model.Event) error {
	_, err := s.change(ctx, org, name, ev, func(ctx context.Context, t *database.Tx, j *model.Job) error {
		switch {
		case !j.DeletedAt.IsZero():
			return store.ErrUnchanged
		case j.Attempted.IsZero():
			return database.Must(ctx, t, model.ErrNotFound, deleteJob, org, name)
		}
		j.DeletedAt, j.Author = at, model.Author{Principal: ev.By, Role: ev.Role}
		return write(ctx, t, *j)
	})
	return err
}

// Finish removes the tombstone of a job: the cluster has no such object.
func (s Store) Finish(ctx context.Context, org, name string, ev model.Event) error {
	_, err := s.change(ctx, org, name, ev, func(ctx context.Context, t *database.Tx, j *model.Job) error {
		if j.DeletedAt.IsZero() {
			return store.ErrUnchanged
		}
		return database.Must(ctx, t, store.ErrUnchanged, deleteJob, org, name)
	})
	return err
}

// EndLost ends the jobs of a sandbox that were never written to their cluster: the sandbox was deleted.
func (s Store) EndLost(ctx context.Context, org, sandbox string, ev model.Event) error {
	if waiting, err := database.List(ctx, s.Database().Reads(), scanJob, selectWaitingOf, org, sandbox); err != nil || len(waiting) == 0 {
		return err
	}
	return s.Write(ctx, org, ev, func(ctx context.Context, t *database.Tx, _ int64) ([]store.Change, error) {
		return nil, endWaiting(ctx, t, ev.At, "SandboxDeleted", fmt.Sprintf("Sandbox %s was deleted.", sandbox), lockWaitingOf, org, sandbox)
	})
}

// endWaiting ends the jobs that a statement locks. One that was written to the cluster in the meantime is not among them: the cluster ends it.
func endWaiting(ctx context.Context, t *database.Tx, at time.Time, reason, message, locks, org, of string) error {
	all, err := database.List(ctx, t, scanJob, locks, org, of)
	for _, j := range all {
		if err == nil {
			j.Attempt = j.Attempt.Ended(model.PhaseCanceled, model.CanceledInternally, reason, message, at)
			err = write(ctx, t, j)
		}
	}
	return err
}

// Attempt records that the object of a generation of a job is about to be written. It returns false if it must not be: the job
// has another generation now, is being deleted or has ended.
func (s Store) Attempt(ctx context.Context, j model.Job, at time.Time) (bool, error) {
	n, err := s.Database().Observe(ctx, attemptJob, j.Org, j.Name, at, j.Generation)
	return n == 1, err
}

// Observe records the state of a job. A final phase stays. It returns false if that changes nothing.
func (s Store) Observe(ctx context.Context, j model.Job, a model.Attempt) (bool, error) {
	at := a.FinishedAt
	if a.Phase.Final() && at.IsZero() {
		at = time.Now().UTC()
	}
	n, err := s.Database().Observe(ctx, observeJob, j.Org, j.Name, a.Phase, at, database.JSON{Of: a})
	if n == 1 {
		s.Observed(j.Org)
	}
	return n == 1, err
}

// Before returns how many queued jobs of its group are before a job.
func (s Store) Before(ctx context.Context, j model.Job) (int64, error) {
	return database.One(ctx, s.Database().Reads(), database.Column[int64], countBefore, j.Org, j.Group, j.Sequence)
}

// Next returns the first job of a group that was never written to its cluster; empty: there is none.
func (s Store) Next(ctx context.Context, org, group string) (string, error) {
	all, err := database.List(ctx, s.Database().Reads(), scanJob, selectNext, org, group)
	if err != nil || len(all) == 0 {
		return "", err
	}
	return all[0].Name, nil
}

// Delivered names the runner groups, and the jobs that have not ended or are being deleted, of a cluster.
func (s Store) Delivered(ctx context.Context, org, cluster string) (out []store.Change, err error) {
	for _, of := range []struct {
		kind  store.Kind
		query string
	}{{store.RunnerGroup, selectGroupsIn}, {store.Job, selectJobsIn}} {
		names, err := database.List(ctx, s.Database().Reads(), database.Column[string], of.query, org, cluster)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			out = append(out, store.Change{Kind: of.kind, Org: org, Cluster: cluster, Name: name})
		}
	}
	return out, nil
}

// Expired returns the jobs that have ended before a time.
func (s Store) Expired(ctx context.Context, org string, before time.Time) ([]model.Job, error) {
	return database.List(ctx, s.Database().Reads(), scanJob, selectExpired, org, before)
}

// Expire removes jobs.
func (s Store) Expire(ctx context.Context, org string, names []string, ev model.Event) error {
	return s.Write(ctx, org, ev, func(ctx context.Context, t *database.Tx, _ int64) (_ []store.Change, err error) {
		for _, name := range names {
			if _, err = database.Exec(ctx, t, deleteJob, org, name); err != nil {
				break
			}
		}
		return nil, err
	})
}
