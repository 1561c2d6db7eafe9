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

// PutSandbox creates a sandbox, or replaces its Spec and Plugins, and returns it with its generation. Of
// one that exists the key, the time of creation and the status stay. Route groups that begin or cease to match
// it get its generation. Errors wrap model.ErrNotFound (the cluster or a plugin), ErrExists (a route group),
// ErrKeyTaken, ErrMoved or ErrDeleting.
func (s *Store) PutSandbox(ctx context.Context, o model.Sandbox, ev model.Event) (model.Sandbox, error) {
	return s.put(ctx, Sandbox, o, ev, func(ctx context.Context, t *tx, was []model.Sandbox, is model.Sandbox) error {
		return regroup(ctx, t, was, is, is.UpdatedAt)
	})
}

// put writes an object, and calls then in the transaction, with its former row if it had one.
func (s *Store) put(ctx context.Context, what Kind, o model.Sandbox, ev model.Event, then func(context.Context, *tx, []model.Sandbox, model.Sandbox) error) (model.Sandbox, error) {
	err := s.write(ctx, o.Org, ev, func(ctx context.Context, t *tx) error {
		old, err := database.List(ctx, t, func(r database.Row) (was objectRow, err error) {
			return was, r.Scan(&was.kind, &was.Name, &was.Cluster, &was.Spec, &was.DeletedAt)
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
		if o, err = putRow(ctx, t, what, o, len(old) == 0); err == nil {
			err = t.check(ctx, []any{o.Org, string(what)}, maximaOf(what, o, len(old) == 0)...)
		}
		if err != nil {
			return of(what.noun(), o.Name, err)
		}
		t.recorded = map[string]int64{"generation": t.generation}
		t.changed(Change{Kind: what, Org: o.Org, Cluster: o.Cluster, Name: o.Name})
		var was []model.Sandbox
		if len(old) > 0 {
			was = append(was, old[0].Sandbox)
		}
		return then(ctx, t, was, o)
	})
	return o, err
}

// objectRow is what decides whether an object can be written, and which route groups it is in.
type objectRow struct {
	kind string
	model.Sandbox
}

// putAllowed returns why an object cannot replace the row of its name; nil: it can, or there is none.
func putAllowed(what Kind, o model.Sandbox, old []objectRow) error {
	switch {
	case len(old) == 0:
		return nil
	case old[0].kind != string(what):
		return model.ErrExists
	case !old[0].DeletedAt.IsZero():
		return model.ErrDeleting
	case old[0].Cluster != o.Cluster:
		return model.ErrMoved
	}
	return nil
}

// putRow writes a row, and returns it.
func putRow(ctx context.Context, t *tx, what Kind, o model.Sandbox, isNew bool) (model.Sandbox, error) {
	plugins, author := database.JSON{Of: o.Plugins}, database.JSON{Of: o.Author}
	if err := clustersExist(ctx, t, what, o); err != nil {
		return o, err
	}
	if isNew {
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

// Sandboxes returns the sandboxes of an organisation, also those that are being deleted.
func (s *Store) Sandboxes(ctx context.Context, org string) ([]model.Sandbox, error) {
	all, err := database.List(ctx, s.db.Reads(), scanObject, selectObjects, org, string(Sandbox))
	return byName(all, func(o model.Sandbox) string { return o.Name }), err
}

// DeleteSandbox makes a sandbox a tombstone with a generation of its own, by the author of the event. One that is a tombstone
// gets a new generation only if force is set and was not, or by another author: the cluster may refuse the deletion to
// the first one.
func (s *Store) DeleteSandbox(ctx context.Context, org, name string, force bool, at time.Time, ev model.Event) error {
	return s.markDeleted(ctx, Sandbox, org, name, 0, force, at, ev)
}

// markDeleted makes an object of a generation, 0: of any, a tombstone of the author. If it is that, or has another
// generation, nothing is recorded.
func (s *Store) markDeleted(ctx context.Context, what Kind, org, name string, generation int64, force bool, at time.Time, ev model.Event) error {
	_, err := unlessUnchanged(s.write(ctx, org, ev, func(ctx context.Context, t *tx) error {
		o, err := lockedObject(ctx, t, what, org, name)
		author := model.Author{Principal: ev.By, Role: ev.Role}
		switch {
		case err != nil:
			return of(what.noun(), name, err)
		case generation > 0 && o.Generation != generation, !o.DeletedAt.IsZero() && (o.Force || !force) && o.Author == author:
			return errUnchanged
		}
		now := at
		if !o.DeletedAt.IsZero() {
			at = o.DeletedAt
		}
		t.changed(Change{Kind: what, Org: org, Cluster: o.Cluster, Name: name})
		err = database.Must(ctx, t, model.ErrNotFound, markObjectDeleted, org, name, t.generation, at, o.Force || force, database.JSON{Of: author})
		switch {
		case err != nil, what == RouteGroup && len(o.Status.Clusters) > 0:
			return err
		case what == RouteGroup:
			return database.Must(ctx, t, model.ErrNotFound, deleteObject, org, name, string(what), t.generation)
		}
		was := []model.Sandbox{o}
		o.DeletedAt = at
		return regroup(ctx, t, was, o, now)
	}))
	return err
}

// lockedObject returns an object with the status that it has until the transaction ends.
func lockedObject(ctx context.Context, q database.Querier, what Kind, org, name string) (o model.Sandbox, err error) {
	if _, err := database.Exec(ctx, q, lockObject, org, name); err != nil {
		return o, err
	}
	return database.One(ctx, q, scanObject, selectObject, org, name, string(what))
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
