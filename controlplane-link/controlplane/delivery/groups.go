package delivery

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"switchyard.dev/controlplane-link/controlplane/delivery/observed"
	"switchyard.dev/controlplane-link/controlplane/desired"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	crdv1 "switchyard.dev/protos/crd/v1"
)

// statusEvery is how often the status of a runner group is recorded. Each job changes it.
const statusEvery = time.Second

// scale is what a site remembers of a runner group.
type scale struct {
	// enough is since when fewer pods are enough; zero: they are not. recorded is when the status was recorded.
	enough, recorded time.Time
}

// reconcileGroup brings one runner group in line with its row.
func (s *site) reconcileGroup(ctx context.Context, name string) (again reconcile.Result, err error) {
	g, err := s.jobs().Group(ctx, s.at.Organisation, name)
	if err != nil || g.Cluster != s.at.Name {
		return again, ignoreMissing(err)
	}
	key := client.ObjectKey{Namespace: g.Namespace, Name: g.Name}
	o, err := existing(ctx, s.cache, key, &crdv1.JobRunnerGroup{})
	if o == nil && err == nil {
		o, err = existing(ctx, s.live, key, &crdv1.JobRunnerGroup{})
	}
	if err != nil {
		return again, err
	}
	replicas, again, err := s.replicas(ctx, g, o)
	if err != nil {
		return again, err
	}
	switch ours := o != nil && crdv1.GenerationOf(o) > 0; {
	case ours && newerGroup(g, o):
		again.RequeueAfter = checkAgain
		return again, s.noteGroup(ctx, g, newerMessage(s.at.Name, crdv1.GenerationOf(o)))
	case !g.DeletedAt.IsZero() && ours:
		if o.DeletionTimestamp == nil {
			err = s.delete(ctx, g.Author, o, client.Preconditions{UID: &o.UID})
		}
		return again, err
	case !g.DeletedAt.IsZero():
		return again, s.jobs().FinishGroup(ctx, g, s.eventOf(g.Org, store.RunnerGroup, g.Name, "deleted"))
	case o != nil && !ours:
		return again, s.noteGroup(ctx, g, observed.ManagedByOther(o, s.at.Name))
	case o == nil && g.Status.Applied == g.Generation && g.Namespace != crdv1.SmartTestsNamespace: // no user can apply that again
		return again, s.noteGroup(ctx, g, fmt.Sprintf("It was deleted in cluster %s: apply it again to create it, or delete it.", s.at.Name))
	case o == nil, o.DeletionTimestamp == nil && (crdv1.GenerationOf(o) < g.Generation || replicas != nil && *replicas != present(o)):
		return s.applyGroup(ctx, g, o, replicas)
	}
	return s.observeGroup(ctx, g, o, again)
}

// present is how many pods a group is to have now.
func present(o *crdv1.JobRunnerGroup) int32 {
	switch {
	case o == nil:
		return 0
	case o.Spec.Replicas == nil:
		return 1
	}
	return *o.Spec.Replicas
}

// replicas returns how many pods a group is to have that scales automatically; nil: it does not.
func (s *site) replicas(ctx context.Context, g model.RunnerGroup, o *crdv1.JobRunnerGroup) (_ *int32, again reconcile.Result, err error) {
	auto := desired.AutoScaling(g)
	if auto == nil {
		return nil, again, nil
	}
	all, err := s.jobs().Phases(ctx, g.Org)
	if err != nil {
		return nil, again, err
	}
	queued, running := all[g.Name][model.PhaseQueued], all[g.Name][model.PhaseRunning]
	kept, _ := s.scales.LoadOrStore(g.Name, &scale{})
	k, now := kept.(*scale), time.Now()
	if desired.Replicas(auto, queued, running, 0, 0) >= present(o) {
		k.enough = time.Time{}
	} else {
		if k.enough.IsZero() {
			k.enough = now
		}
		again.RequeueAfter = max(desired.IdleFor-now.Sub(k.enough), time.Second)
	}
	var enough time.Duration
	if !k.enough.IsZero() {
		enough = now.Sub(k.enough)
	}
	want := desired.Replicas(auto, queued, running, present(o), enough)
	return &want, again, nil
}

// applyGroup writes the object of a group.
func (s *site) applyGroup(ctx context.Context, g model.RunnerGroup, o *crdv1.JobRunnerGroup, replicas *int32) (again reconcile.Result, err error) {
	n := int32(1)
	if replicas != nil {
		n = *replicas
	}
	want, fault := desired.RunnerGroup(g, n)
	if fault != nil {
		return again, s.noteGroup(ctx, g, fault.Error())
	}
	if status := g.Status; status.Attempted < g.Generation {
		status.Attempted = g.Generation
		if is, err := s.jobs().ObserveGroup(ctx, g, status); err != nil || !is {
			again.RequeueAfter = soon
			return again, err
		}
		g.Status = status
	}
	changed, err := s.send(ctx, g.Author, want, o)
	if changed != nil && err == nil {
		err = s.Store.Record(ctx, s.eventOf(g.Org, store.RunnerGroup, g.Name, "takeback", changed.Error()))
	}
	if _, is := refusal(err); is {
		return again, errors.Join(err, s.noteGroup(ctx, g, err.Error()))
	}
	return again, err
}

// observeGroup records the status of the object of a group, at most once a second.
func (s *site) observeGroup(ctx context.Context, g model.RunnerGroup, o *crdv1.JobRunnerGroup, again reconcile.Result) (reconcile.Result, error) {
	kept, _ := s.scales.LoadOrStore(g.Name, &scale{})
	k, st := kept.(*scale), o.Status
	out := model.RunnerGroupStatus{Applied: crdv1.GenerationOf(o), Attempted: g.Status.Attempted, Ready: int(st.ReadyReplicas), NotReady: int(st.UnavailableReplicas), Idle: int(st.ReadyIdleReplicas)}
	if ready := crdv1.FindCondition(st.Conditions, crdv1.ConditionReady); ready != nil && ready.Status != "True" {
		out.Message = ready.Message
	}
	if out == g.Status {
		return again, nil
	}
	if since := time.Since(k.recorded); since < statusEvery {
		again.RequeueAfter = statusEvery - since
		return again, nil
	}
	k.recorded = time.Now()
	return again, s.recordGroup(ctx, g, out)
}

// newerGroup reports whether an object is newer than what this store has written of the group: it is from a backup.
func newerGroup(g model.RunnerGroup, o *crdv1.JobRunnerGroup) bool {
	return crdv1.GenerationOf(o) > max(g.Status.Applied, g.Status.Attempted)
}

// noteGroup records why a group has no state.
func (s *site) noteGroup(ctx context.Context, g model.RunnerGroup, message string) error {
	return s.recordGroup(ctx, g, model.RunnerGroupStatus{Applied: g.Status.Applied, Attempted: g.Status.Attempted, Message: message})
}

func (s *site) recordGroup(ctx context.Context, g model.RunnerGroup, status model.RunnerGroupStatus) error {
	if status.Message = strings.ToValidUTF8(status.Message, ""); status == g.Status {
		return nil
	}
	_, err := s.jobs().ObserveGroup(ctx, g, status)
	return err
}
