package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"switchyard.dev/controlplane-link/controlplane/delivery/observed"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/sandboxes"
	"switchyard.dev/workflows/steps"
)

const (
	// soon is when an object is reconciled again with a row that has changed in the meantime.
	soon = 20 * time.Millisecond
	// checkAgain is how often an object is reconciled that is newer than the store, or has resources that are
	// deleted by force.
	checkAgain = 5 * time.Second
)

// entry is a row.
type entry struct {
	request
	// Sandbox is the row, also of a route group.
	model.Sandbox
	// part is the status in this cluster; isNew: there is none.
	part  model.Status
	isNew bool
}

// reconcile brings one object in line with its row, or enqueues all rows of a queue. Objects are enqueued by
// the watches.
func (s *site) reconcile(ctx context.Context, r request) (again reconcile.Result, err error) {
	switch r {
	case everything:
		all, err := s.Store.Delivered(ctx, s.at.Organisation, s.at.Name)
		return again, s.addAll(all, err)
	case everyJob:
		all, err := s.jobs().Delivered(ctx, s.at.Organisation, s.at.Name)
		return again, errors.Join(s.addAll(all, err), s.addExecutions(ctx))
	}
	switch r.kind {
	case store.Job:
		return s.reconcileJob(ctx, r.name)
	case store.RunnerGroup:
		return s.reconcileGroup(ctx, r.name)
	case store.TestExecution:
		return s.reconcileExecution(ctx, r.name)
	}
	again, err = s.converge(ctx, r, s.cache, s.live)
	if stale(err) { // the list is stale
		again, err = s.converge(ctx, r, s.live)
	}
	return again, err
}

// addAll enqueues rows, unless they could not be read.
func (s *site) addAll(rows []store.Change, err error) error {
	if err == nil {
		for _, c := range rows {
			s.add(request{c.Kind, c.Name})
		}
	}
	return err
}

// converge brings one object in line with its row, from the first reader that is enough.
func (s *site) converge(ctx context.Context, r request, readers ...client.Reader) (again reconcile.Result, err error) {
	e, err := s.entry(ctx, r)
	if e == nil || err != nil {
		return again, err
	}
	var o crdv1.Object
	do := confirm
	for _, from := range readers {
		if do != confirm {
			break
		}
		if o, err = get(ctx, from, r); err != nil {
			return again, err
		}
		do = decide(e, o, from == s.live, time.Now())
	}
	return s.act(ctx, e, o, do)
}

// entry reads a row; nil: there is none for this cluster.
func (s *site) entry(ctx context.Context, r request) (e *entry, err error) {
	e = &entry{request: r}
	if r.kind == store.Sandbox {
		e.Sandbox, err = s.Store.Sandbox(ctx, s.at.Organisation, r.name)
		e.part = e.Status
	} else {
		g, failed := s.Store.RouteGroup(ctx, s.at.Organisation, r.name)
		part, is := g.Status.Clusters[s.at.Name]
		e.Sandbox, e.part, e.isNew, err = model.Sandbox(g), part, !is, failed
	}
	if errors.Is(err, model.ErrNotFound) || err == nil && e.Cluster != "" && e.Cluster != s.at.Name {
		return nil, nil
	}
	return e, err
}

// get reads an object; nil: there is none.
func get(ctx context.Context, from client.Reader, r request) (crdv1.Object, error) {
	o, err := kinds[r.kind].GetObject(ctx, from, r.name)
	if errors.Is(err, sandboxes.ErrNotFound) {
		return nil, nil
	}
	return o, err
}

// act does a step.
func (s *site) act(ctx context.Context, e *entry, o crdv1.Object, do step) (again reconcile.Result, err error) {
	status := e.part
	switch do {
	case apply:
		return s.apply(ctx, e, o)
	case remove:
		return s.remove(ctx, e, o)
	case finish:
		_, err := s.Store.Finish(ctx, e.kind, e.Org, e.Name, s.at.Name, e.Generation, s.event(e, "deleted"))
		if e.kind == store.Sandbox {
			err = errors.Join(err, s.endJobsOf(ctx, e.Name))
		}
		return again, err
	case expire:
		ev := s.event(e, "expire")
		return again, s.Store.Expire(ctx, e.kind, e.Org, e.Name, e.Generation, ev.At, ev)
	case observe:
		if !e.DeletedAt.IsZero() {
			return s.giveUp(ctx, e)
		}
		status = observed.StatusOf(o, e.part)
	case missing:
		status.Newer = 0
		if end := e.part.ScheduledDeleteTime; !end.IsZero() {
			again.RequeueAfter = time.Until(end)
		}
		status = observed.Because(status, e.Generation, observed.ReasonDeleted, fmt.Sprintf("It was deleted in cluster %s: apply it again to create it, or delete it.", s.at.Name))
	case foreign:
		status.Newer = 0
		status = observed.Because(status, e.Generation, model.ReasonForeign, observed.ManagedByOther(o, s.at.Name))
	case newer:
		again.RequeueAfter, status.Newer = checkAgain, max(status.Newer, crdv1.GenerationOf(o))
		status = observed.Because(status, e.Generation, observed.ReasonNewer, newerMessage(s.at.Name, status.Newer))
	}
	return again, s.record(ctx, e, status)
}

func newerMessage(cluster string, generation int64) string {
	return fmt.Sprintf("Cluster %s has generation %d of it, which is newer than the store: run controlplane adopt %[1]s, or apply it again after that.", cluster, generation)
}

// record records a status, unless the store has it.
func (s *site) record(ctx context.Context, e *entry, status model.Status) error {
	if !e.isNew && observed.Same(status, e.part) {
		return nil
	}
	ready := func(st model.Status) bool { return st.Ready && st.Generation == e.Generation }
	if e.kind == store.Sandbox && ready(status) && !ready(e.part) {
		if err := s.trigger(ctx, e.Sandbox); err != nil {
			return err
		}
	}
	_, err := s.Store.Observe(ctx, e.kind, e.Org, e.Name, s.at.Name, status)
	return err
}

// giveUp skips the delete steps of a sandbox that is deleted by force.
func (s *site) giveUp(ctx context.Context, e *entry) (again reconcile.Result, err error) {
	if !e.Force {
		return again, nil
	}
	again.RequeueAfter = checkAgain
	all, err := steps.List(ctx, s.live, e.Name)
	if err != nil {
		return again, err
	}
	as, err := s.as(e.ForcedBy)
	for i := range all {
		if r := &all[i]; err == nil && r.DeletionTimestamp != nil && r.Annotations[crdv1.AnnotationGiveUp] == "" {
			err = client.IgnoreNotFound(steps.GiveUp(ctx, as, r))
		}
	}
	if err != nil {
		return s.refused(ctx, e, err)
	}
	return again, nil
}

// event returns the entry of the audit trail for a write of the control plane itself.
func (s *site) event(e *entry, verb string, because ...string) model.Event {
	return s.eventOf(e.Org, e.kind, e.Name, verb, because...)
}

// eventOf is event for an object of another table.
func (s *site) eventOf(org string, kind store.Kind, name, verb string, because ...string) model.Event {
	by := model.Caller{Org: org, Principal: model.Principal{Kind: model.KindSystem, Name: "control plane"}, Method: model.MethodInternal}
	data := map[string]any{"name": name, "cluster": s.at.Name, "because": because}
	return store.Entry(by, string(kind)+"."+verb, time.Now().UTC().Truncate(time.Microsecond), data)
}
