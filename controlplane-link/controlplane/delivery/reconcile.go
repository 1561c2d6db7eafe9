package delivery

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"switchyard.dev/controlplane-link/controlplane/desired"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/steps"
)

const (
	// soon is when an object is reconciled again that another client has written in the meantime.
	soon = 20 * time.Millisecond
	// checkAdoption is how often an object is reconciled that is newer than the store.
	checkAdoption = 10 * time.Second
	// checkDeletion is how often the resources of a sandbox are read that is deleted by force.
	checkDeletion = 2 * time.Second
)

// entry is a row with what the cluster should have for it.
type entry struct {
	request
	// Sandbox is the row. That of a route group has the same fields.
	model.Sandbox
	// part is its status in this cluster; isPart: there is one.
	part   model.Status
	isPart bool
	// want is the object, and fault why there is none.
	want  func(context.Context) (crdv1.Object, error)
	fault error
	// differs compares the object with that of the cluster.
	differs func(crdv1.Object) bool
}

// reconcile brings one object in line with its row, or enqueues all rows of the cluster.
func (s *site) reconcile(ctx context.Context, r request) (reconcile.Result, error) {
	if r.name == "" {
		return reconcile.Result{}, s.all(ctx, r)
	}
	e, err := s.entry(ctx, r)
	if err != nil {
		return reconcile.Result{}, err
	}
	o, err := get(ctx, s.cache, r)
	if err != nil {
		return reconcile.Result{}, err
	}
	now := s.Now()
	do := decide(e.row(o), seen(o), false, now)
	if do == confirm {
		if o, err = get(ctx, s.live, r); err != nil {
			return reconcile.Result{}, err
		}
		do = decide(e.row(o), seen(o), true, now)
	} else if e != nil && o != nil && keyOf(o) == e.RoutingKey && generationOf(o) < s.writtenOf(r) {
		return reconcile.Result{}, nil // the cache is about to have the written one
	}
	if e == nil {
		s.unknown(r, o)
		return reconcile.Result{}, nil
	}
	return s.act(ctx, e, o, do)
}

// all enqueues the rows of the cluster. Objects are enqueued by the watches.
func (s *site) all(ctx context.Context, r request) error {
	at := s.agent.Cluster
	if r.kind != store.RouteGroup {
		rows, err := s.Store.SandboxesOf(ctx, at.Organisation, at.Name)
		if err != nil {
			return err
		}
		for _, row := range rows {
			s.enqueue(request{store.Sandbox, row.Name})
		}
	}
	rows, err := s.Store.RouteGroups(ctx, at.Organisation)
	for _, row := range rows {
		if row.Cluster == "" || row.Cluster == at.Name {
			s.enqueue(request{store.RouteGroup, row.Name})
		}
	}
	return err
}

// entry reads a row; nil: there is none for this cluster.
func (s *site) entry(ctx context.Context, r request) (*entry, error) {
	at := s.agent.Cluster
	if r.kind == store.RouteGroup {
		return s.groupEntry(ctx, r)
	}
	o, err := s.Store.Sandbox(ctx, at.Organisation, r.name)
	if errors.Is(err, model.ErrNotFound) || err == nil && o.Cluster != at.Name {
		return nil, nil
	}
	e := &entry{request: r, Sandbox: o, part: o.Status, isPart: true, differs: func(crdv1.Object) bool { return false }}
	e.want = func(ctx context.Context) (crdv1.Object, error) {
		var plugins []model.Plugin
		if len(o.Plugins) > 0 {
			if plugins, err = s.Store.Plugins(ctx, at.Organisation); err != nil {
				return nil, err
			}
		}
		var want *crdv1.SignadotSandbox
		want, e.fault = desired.Sandbox(o, plugins)
		return want, nil
	}
	return e, err
}

// groupEntry is entry for a route group.
func (s *site) groupEntry(ctx context.Context, r request) (*entry, error) {
	at := s.agent.Cluster
	g, err := s.Store.RouteGroup(ctx, at.Organisation, r.name)
	if errors.Is(err, model.ErrNotFound) || err == nil && g.Cluster != "" && g.Cluster != at.Name {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	e := &entry{request: r, Sandbox: model.Sandbox{
		Org: g.Org, Name: g.Name, Cluster: g.Cluster, RoutingKey: g.RoutingKey, Generation: g.Generation, DeletedAt: g.DeletedAt, Author: g.Author, Status: g.Status,
	}}
	e.part, e.isPart = g.Status.Clusters[at.Name]
	var want *crdv1.SignadotRouteGroup
	if g.DeletedAt.IsZero() {
		members, err := s.Store.Sandboxes(ctx, at.Organisation)
		if err != nil {
			return nil, err
		}
		want, e.fault = desired.Group(g, at.Name, members)
	}
	e.want = func(context.Context) (crdv1.Object, error) { return want, nil }
	e.differs = func(o crdv1.Object) bool {
		is, ok := o.(*crdv1.SignadotRouteGroup)
		return ok && e.fault == nil && want != nil && !slices.Equal(is.Spec.SandboxNames, want.Spec.SandboxNames)
	}
	return e, nil
}

// row is the entry as decide takes it, beside the object of the cluster.
func (e *entry) row(o crdv1.Object) *row {
	if e == nil {
		return nil
	}
	return &row{
		generation: e.Generation, deleted: !e.DeletedAt.IsZero(), key: e.RoutingKey,
		applied: e.part.Applied, newer: e.part.Newer, adopted: e.part.Adopted, ends: e.part.ScheduledDeleteTime,
		differs: o != nil && e.differs(o),
	}
}

// seen is an object as decide takes it.
func seen(o crdv1.Object) *object {
	if o == nil {
		return nil
	}
	return &object{generation: generationOf(o), key: keyOf(o), deleting: o.GetDeletionTimestamp() != nil}
}

// get reads an object; nil: there is none.
func get(ctx context.Context, from client.Reader, r request) (crdv1.Object, error) {
	var o crdv1.Object = &crdv1.SignadotSandbox{}
	if r.kind == store.RouteGroup {
		o = &crdv1.SignadotRouteGroup{}
	}
	err := from.Get(ctx, client.ObjectKey{Name: r.name}, o)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return o, err
}

// act does a step.
func (s *site) act(ctx context.Context, e *entry, o crdv1.Object, do step) (again reconcile.Result, err error) {
	cluster := s.agent.Cluster.Name
	switch do {
	case apply:
		return s.apply(ctx, e, o)
	case remove:
		return s.remove(ctx, e, o)
	case finish:
		return again, s.finish(ctx, e)
	case expire:
		ev := s.event(e, "expire", map[string]any{"cluster": cluster})
		return again, s.Store.DeleteSandbox(ctx, e.Org, e.Name, false, ev.At, ev)
	case observe:
		if e.DeletedAt.IsZero() {
			return again, s.record(ctx, e, statusOf(o, e.part))
		}
		return s.giveUp(ctx, e)
	case missing:
		if !e.part.ScheduledDeleteTime.IsZero() {
			again.RequeueAfter = time.Until(e.part.ScheduledDeleteTime)
		}
		message := fmt.Sprintf("It was deleted in cluster %s: apply it again to create it, or delete it.", cluster)
		return again, s.record(ctx, e, reported(e.part, e.Generation, ReasonDeleted, message))
	case foreign:
		return again, s.record(ctx, e, reported(e.part, e.Generation, ReasonForeign, ManagedByOther(o, cluster)))
	case newer:
		again.RequeueAfter = checkAdoption
		return again, s.newer(ctx, e, o)
	}
	return again, nil
}

// newer records that an object is newer than the store.
func (s *site) newer(ctx context.Context, e *entry, o crdv1.Object) error {
	status := e.part
	status.Newer = max(status.Newer, generationOf(o))
	message := fmt.Sprintf("Cluster %s has generation %d of it, and the store was restored from an older backup: run controlplane adopt %s.", s.agent.Cluster.Name, status.Newer, s.agent.Cluster.Name)
	if status.Newer <= status.Adopted {
		message = fmt.Sprintf("Cluster %s has a newer specification of it than the store: apply it again.", s.agent.Cluster.Name)
	}
	s.warn(e.request, status.Newer, "an object is newer than the store: it is not written until its cluster is adopted")
	return s.record(ctx, e, reported(status, e.Generation, ReasonNewer, message))
}

// unknown logs an object that has a generation and no row.
func (s *site) unknown(r request, o crdv1.Object) {
	if o != nil && generationOf(o) > 0 && o.GetDeletionTimestamp() == nil {
		s.warn(r, generationOf(o), "the store does not have an object that a control plane has written: it is kept")
	}
}

// warn logs an object once for each generation.
func (s *site) warn(r request, generation int64, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.warned[r] != generation {
		s.warned[r] = generation
		s.Logger.Warn(message, "cluster", s.agent.Cluster.Name, "kind", r.kind, "name", r.name, "generation", generation)
	}
}

// record records a status, unless the store has it.
func (s *site) record(ctx context.Context, e *entry, status model.Status) error {
	if e.isPart && same(status, e.part) {
		return nil
	}
	var err error
	if e.kind == store.RouteGroup {
		_, err = s.Store.ObserveIn(ctx, e.Org, e.Name, s.agent.Cluster.Name, &status)
	} else {
		_, err = s.Store.ObserveSandbox(ctx, e.Org, e.Name, status)
	}
	return err
}

// finish ends a tombstone: the cluster has no such object. A route group ends once no cluster has one.
func (s *site) finish(ctx context.Context, e *entry) error {
	ev := s.event(e, "deleted", map[string]any{"cluster": s.agent.Cluster.Name})
	if e.kind == store.Sandbox {
		_, err := s.Store.FinishSandbox(ctx, e.Org, e.Name, e.Generation, ev)
		return err
	}
	if e.isPart {
		if _, err := s.Store.ObserveIn(ctx, e.Org, e.Name, s.agent.Cluster.Name, nil); err != nil {
			return err
		}
	}
	g, err := s.Store.RouteGroup(ctx, e.Org, e.Name)
	if errors.Is(err, model.ErrNotFound) || err == nil && len(g.Status.Clusters) > 0 {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = s.Store.FinishRouteGroup(ctx, e.Org, e.Name, e.Generation, ev)
	return err
}

// giveUp skips the delete steps of a sandbox that is deleted by force.
func (s *site) giveUp(ctx context.Context, e *entry) (again reconcile.Result, err error) {
	if !e.Force || e.kind != store.Sandbox {
		return again, nil
	}
	again.RequeueAfter = checkDeletion
	all, err := steps.List(ctx, s.live, e.Name)
	if err != nil {
		return again, err
	}
	as, err := s.as(e.Author)
	for i := range all {
		if r := &all[i]; err == nil && r.DeletionTimestamp != nil && r.Annotations[crdv1.AnnotationGiveUp] == "" {
			err = steps.GiveUp(ctx, as, r)
		}
	}
	return again, err
}

// event returns the entry of the audit trail for a write of the control plane itself.
func (s *site) event(e *entry, verb string, data map[string]any) model.Event {
	data["name"] = e.Name
	return event(e.Org, string(e.kind)+"."+verb, s.Now(), data)
}

func event(org, what string, at time.Time, data map[string]any) model.Event {
	text, _ := json.Marshal(data) // texts and lists of texts
	return model.Event{
		Org: org, ID: rand.Text(), Type: what, At: at.UTC().Truncate(time.Microsecond), By: model.Principal{Kind: model.KindSystem, Name: "control plane"},
		Method: model.MethodInternal, Data: text,
	}
}
