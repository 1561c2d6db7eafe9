package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store/database"
)

// scanObject scans a sandbox; a route group has the same columns.
func scanObject(r database.Row) (o model.Sandbox, err error) {
	return o, r.Scan(&o.Org, &o.Name, &o.Cluster, &o.RoutingKey, &o.Spec, database.JSON{Of: &o.Plugins}, &o.Generation,
		&o.CreatedAt, &o.UpdatedAt, &o.DeletedAt, &o.Force, database.JSON{Of: &o.Author}, database.JSON{Of: &o.Status})
}

// noun is how errors name a kind.
func (k Kind) noun() string {
	if k == RouteGroup {
		return "route group"
	}
	return string(k)
}

func groupOf(o model.Sandbox) model.RouteGroup {
	return model.RouteGroup{
		Org: o.Org, Name: o.Name, Cluster: o.Cluster, RoutingKey: o.RoutingKey, Spec: o.Spec, Generation: o.Generation,
		CreatedAt: o.CreatedAt, UpdatedAt: o.UpdatedAt, DeletedAt: o.DeletedAt, Author: o.Author, Status: o.Status,
	}
}

func groupsOf(all []model.Sandbox) []model.RouteGroup {
	var groups []model.RouteGroup
	for _, o := range all {
		groups = append(groups, groupOf(o))
	}
	return groups
}

// PutSandbox creates a sandbox, or replaces its Spec and Plugins, and returns it with its generation. Of
// one that exists the key, the time of creation and the status stay. Errors wrap model.ErrNotFound
// (the cluster or a plugin), ErrExists (a route group), ErrKeyTaken, ErrMoved or ErrDeleting.
func (s *Store) PutSandbox(ctx context.Context, o model.Sandbox, ev model.Event) (model.Sandbox, error) {
	return s.put(ctx, Sandbox, o, ev)
}

// PutRouteGroup is PutSandbox for a route group.
func (s *Store) PutRouteGroup(ctx context.Context, g model.RouteGroup, ev model.Event) (model.RouteGroup, error) {
	o, err := s.put(ctx, RouteGroup, model.Sandbox{
		Org: g.Org, Name: g.Name, Cluster: g.Cluster, RoutingKey: g.RoutingKey, Spec: g.Spec, CreatedAt: g.CreatedAt, UpdatedAt: g.UpdatedAt, Author: g.Author,
	}, ev)
	return groupOf(o), err
}

func (s *Store) put(ctx context.Context, what Kind, o model.Sandbox, ev model.Event) (model.Sandbox, error) {
	err := s.write(ctx, o.Org, ev, func(ctx context.Context, t *tx) error {
		old, err := database.List(ctx, t, func(r database.Row) (was objectRow, err error) {
			return was, r.Scan(&was.kind, &was.cluster, &was.deleted)
		}, selectObjectRow, o.Org, o.Name)
		if err != nil {
			return err
		}
		if err := putAllowed(what, o, old); err != nil {
			return of(what.noun(), o.Name, err)
		}
		for resource, p := range o.Plugins {
			if err := database.Exists(ctx, t, selectPlugin, o.Org, p.Bare, p.Defaulted().Version); err != nil {
				return fmt.Errorf("resource %q: %w", resource, of("resource plugin", p.String(), err))
			}
		}
		if o, err = putRow(ctx, t, what, o, len(old) == 0); err != nil {
			return of(what.noun(), o.Name, err)
		}
		t.recorded = true
		t.changed(Change{Kind: what, Org: o.Org, Cluster: o.Cluster, Name: o.Name})
		return nil
	})
	return o, err
}

// objectRow is what decides whether an object can be written.
type objectRow struct {
	kind, cluster string
	deleted       time.Time
}

// putAllowed returns why an object cannot replace the row of its name; nil: it can, or there is none.
func putAllowed(what Kind, o model.Sandbox, old []objectRow) error {
	switch {
	case len(old) == 0:
		return nil
	case old[0].kind != string(what):
		return model.ErrExists
	case !old[0].deleted.IsZero():
		return model.ErrDeleting
	case old[0].cluster != o.Cluster:
		return model.ErrMoved
	}
	return nil
}

// putRow writes a row, and returns it.
func putRow(ctx context.Context, t *tx, what Kind, o model.Sandbox, isNew bool) (model.Sandbox, error) {
	plugins, author := database.JSON{Of: o.Plugins}, database.JSON{Of: o.Author}
	if isNew {
		if o.Cluster != "" || what == Sandbox {
			if err := database.Exists(ctx, t, selectCluster, o.Org, o.Cluster); err != nil {
				return o, of("cluster", o.Cluster, err)
			}
		}
		if err := database.Must(ctx, t, model.ErrKeyTaken, insertRoutingKey, o.RoutingKey, o.Org, o.Name); err != nil {
			return o, err
		}
		if err := database.Must(ctx, t, model.ErrExists, insertObject, o.Org, o.Name, string(what), o.Cluster, o.RoutingKey, o.Spec, plugins, t.generation, o.CreatedAt, o.UpdatedAt, author); err != nil {
			return o, err
		}
	} else if err := database.Must(ctx, t, model.ErrNotFound, updateObject, o.Org, o.Name, o.Spec, plugins, t.generation, o.UpdatedAt, author); err != nil {
		return o, err
	}
	return database.One(ctx, t, scanObject, selectObject, o.Org, o.Name, string(what))
}

// Sandbox returns a sandbox, also one that is being deleted.
func (s *Store) Sandbox(ctx context.Context, org, name string) (model.Sandbox, error) {
	o, err := database.One(ctx, s.db.Reads(), scanObject, selectObject, org, name, string(Sandbox))
	return o, of(Sandbox.noun(), name, err)
}

// RouteGroup returns a route group, also one that is being deleted.
func (s *Store) RouteGroup(ctx context.Context, org, name string) (model.RouteGroup, error) {
	o, err := database.One(ctx, s.db.Reads(), scanObject, selectObject, org, name, string(RouteGroup))
	return groupOf(o), of(RouteGroup.noun(), name, err)
}

// Sandboxes returns the sandboxes of an organisation, also those that are being deleted.
func (s *Store) Sandboxes(ctx context.Context, org string) ([]model.Sandbox, error) {
	return s.objects(ctx, selectObjects, org, string(Sandbox))
}

// SandboxesOf returns the sandboxes of a cluster, also those that are being deleted.
func (s *Store) SandboxesOf(ctx context.Context, org, cluster string) ([]model.Sandbox, error) {
	return s.objects(ctx, selectObjectsOf, org, string(Sandbox), cluster)
}

// RouteGroups returns the route groups of an organisation, also those that are being deleted.
func (s *Store) RouteGroups(ctx context.Context, org string) ([]model.RouteGroup, error) {
	all, err := s.objects(ctx, selectObjects, org, string(RouteGroup))
	return groupsOf(all), err
}

func (s *Store) objects(ctx context.Context, query string, args ...any) ([]model.Sandbox, error) {
	all, err := database.List(ctx, s.db.Reads(), scanObject, query, args...)
	return byName(all, func(o model.Sandbox) string { return o.Name }), err
}

// DeleteSandbox makes a sandbox a tombstone with a generation of its own, by the author of the event. One that is a tombstone
// gets a new generation only if force is set and was not.
func (s *Store) DeleteSandbox(ctx context.Context, org, name string, force bool, at time.Time, ev model.Event) error {
	return s.markDeleted(ctx, Sandbox, org, name, force, at, ev)
}

// DeleteRouteGroup makes a route group a tombstone with a generation of its own, or removes it if no cluster has a
// part of it.
func (s *Store) DeleteRouteGroup(ctx context.Context, org, name string, at time.Time, ev model.Event) error {
	return s.markDeleted(ctx, RouteGroup, org, name, false, at, ev)
}

func (s *Store) markDeleted(ctx context.Context, what Kind, org, name string, force bool, at time.Time, ev model.Event) error {
	return s.write(ctx, org, ev, func(ctx context.Context, t *tx) error {
		o, err := database.One(ctx, t, scanObject, selectObject, org, name, string(what))
		if err != nil || !o.DeletedAt.IsZero() && (o.Force || !force) { // nothing changes
			return of(what.noun(), name, err)
		}
		if !o.DeletedAt.IsZero() {
			at = o.DeletedAt
		}
		t.changed(Change{Kind: what, Org: org, Cluster: o.Cluster, Name: name})
		author := database.JSON{Of: model.Author{Principal: ev.By, Role: ev.Role}}
		err = database.Must(ctx, t, model.ErrNotFound, markObjectDeleted, org, name, t.generation, at, o.Force || force, author)
		if err != nil || what != RouteGroup || len(o.Status.Clusters) > 0 {
			return err
		}
		return database.Must(ctx, t, model.ErrNotFound, deleteObject, org, name, string(what), t.generation)
	})
}

// FinishSandbox removes the tombstone of a generation: the cluster has no such object. It returns false
// if there is none, as when another replica was faster.
func (s *Store) FinishSandbox(ctx context.Context, org, name string, generation int64, ev model.Event) (bool, error) {
	return s.finish(ctx, Sandbox, org, name, generation, ev)
}

// FinishRouteGroup removes the tombstone of a generation: no cluster has such an object.
func (s *Store) FinishRouteGroup(ctx context.Context, org, name string, generation int64, ev model.Event) (bool, error) {
	return s.finish(ctx, RouteGroup, org, name, generation, ev)
}

func (s *Store) finish(ctx context.Context, what Kind, org, name string, generation int64, ev model.Event) (bool, error) {
	err := s.write(ctx, org, ev, func(ctx context.Context, t *tx) error {
		t.changed(Change{Kind: what, Org: org, Name: name})
		return database.Must(ctx, t, errUnchanged, deleteObject, org, name, string(what), generation)
	})
	return unlessUnchanged(err)
}

// ObserveSandbox records an observed status. It returns false if that changes nothing: it is the same, it
// is of an older generation than the last one, or of a newer one than was ever written.
func (s *Store) ObserveSandbox(ctx context.Context, org, name string, status model.Status) (bool, error) {
	return s.observed(ctx, Sandbox, org, name, status)
}

// ObserveIn records the part of a route group's status that is observed in one cluster; nil: it has no object
// there. The status is the union of all parts. It returns false if that changes nothing, as with a part of a
// tombstone that had none.
func (s *Store) ObserveIn(ctx context.Context, org, name, cluster string, part *model.Status) (changed bool, err error) {
	err = s.db.ObserveIn(ctx, func(ctx context.Context, t *database.Tx) error {
		if _, err := database.Exec(ctx, t, lockObject, org, name); err != nil {
			return err
		}
		o, err := database.One(ctx, t, scanObject, selectObject, org, name, string(RouteGroup))
		if _, has := o.Status.Clusters[cluster]; err != nil || part != nil && !has && !o.DeletedAt.IsZero() {
			return of(RouteGroup.noun(), name, err)
		}
		status := o.Status.With(cluster, part)
		n, err := database.Exec(ctx, t, observeObject, org, name, string(RouteGroup), max(status.Generation, o.Status.Generation), database.JSON{Of: status})
		changed = n == 1
		return err
	})
	return changed && err == nil, err
}

// ObserveRouteGroup is ObserveSandbox for a route group.
func (s *Store) ObserveRouteGroup(ctx context.Context, org, name string, status model.Status) (bool, error) {
	return s.observed(ctx, RouteGroup, org, name, status)
}

func (s *Store) observed(ctx context.Context, what Kind, org, name string, status model.Status) (bool, error) {
	n, err := s.db.Observe(ctx, observeObject, org, name, string(what), status.Generation, database.JSON{Of: status})
	return n == 1, err
}

// uses returns the resources that have a plugin, by the plugin with its version.
func uses(ctx context.Context, q database.Querier, org string) (map[string][]model.Use, error) {
	all, err := database.List(ctx, q, scanObject, selectObjectsWithPlugins, org)
	found := map[string][]model.Use{}
	for _, o := range all {
		for resource, p := range o.Plugins {
			found[p.String()] = append(found[p.String()], model.Use{Resource: resource, Sandbox: o.Name, Cluster: o.Cluster})
		}
	}
	for _, of := range found {
		slices.SortFunc(of, func(a, b model.Use) int {
			return cmp.Or(cmp.Compare(a.Sandbox, b.Sandbox), cmp.Compare(a.Resource, b.Resource))
		})
	}
	return found, err
}
