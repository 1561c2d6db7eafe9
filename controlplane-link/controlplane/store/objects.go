package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store/database"
)

// object is the row of a sandbox or a route group. Both have the same columns.
type object struct {
	kind Kind
	model.Sandbox
}

func scanObject(r database.Row) (o object, err error) {
	return o, r.Scan(&o.kind, &o.Org, &o.Name, &o.Cluster, &o.RoutingKey, &o.Spec, database.JSON{Of: &o.Plugins}, &o.Generation,
		&o.CreatedAt, &o.UpdatedAt, &o.DeletedAt, &o.Force, &o.UnmatchedAt, database.JSON{Of: &o.Author}, database.JSON{Of: &o.Status})
}

// scanSandbox scans an object without its kind.
func scanSandbox(r database.Row) (model.Sandbox, error) {
	o, err := scanObject(r)
	return o.Sandbox, err
}

// noun is how errors name a kind.
func (k Kind) noun() string {
	if k == RouteGroup {
		return "route group"
	}
	return string(k)
}

// named is an object of a kind.
func (k Kind) named(name string) thing { return thing{what: k.noun(), name: name} }

// change is that of the object.
func (o object) change() Change {
	return Change{Kind: o.kind, Org: o.Org, Cluster: o.Cluster, Name: o.Name}
}

// clusters returns the clusters that an object names, by the path of the field.
func (o object) clusters() map[string]string {
	if o.kind == RouteGroup {
		return model.RouteGroup(o.Sandbox).Clusters()
	}
	return map[string]string{"spec.cluster": o.Cluster}
}

// PutSandbox creates a sandbox, or replaces its Spec and Plugins, and returns it with its generation. Of
// one that exists the key, the time of creation and the status stay. Route groups that begin or cease to match
// it get its generation. Errors wrap model.ErrNotFound (the cluster or a plugin), ErrExists (a route group),
// ErrKeyTaken, ErrMoved or ErrDeleting.
func (s *Store) PutSandbox(ctx context.Context, o model.Sandbox, ev model.Event) (model.Sandbox, error) {
	return s.put(ctx, object{Sandbox, o}, ev)
}

// put writes an object, and numbers the route groups that are changed by that.
func (s *Store) put(ctx context.Context, o object, ev model.Event) (model.Sandbox, error) {
	err := s.write(ctx, o.Org, ev, func(t *tx) {
		old := list(t, scanObject, selectNamed, o.Org, o.Name)
		t.fail(o.kind.named(o.Name).of(putAllowed(o, old)))
		o = t.putRow(o, len(old) == 0)
		t.recorded = map[string]int64{"generation": t.generation}
		t.changed(o.change())
		if o.kind == RouteGroup {
			t.renumber(&o, o.UpdatedAt)
		} else {
			t.regroup(old, o, o.UpdatedAt)
		}
	})
	return o.Sandbox, err
}

// putAllowed returns why an object cannot replace the row of its name; nil: it can, or there is none.
func putAllowed(o object, old []object) error {
	switch {
	case len(old) == 0:
		return nil
	case old[0].kind != o.kind:
		return model.ErrExists
	case !old[0].DeletedAt.IsZero():
		return model.ErrDeleting
	case old[0].Cluster != o.Cluster:
		return model.ErrMoved
	}
	return nil
}

// putRow writes a row, and returns it.
func (t *tx) putRow(o object, isNew bool) object {
	this, plugins, author := o.kind.named(o.Name), database.JSON{Of: o.Plugins}, database.JSON{Of: o.Author}
	for resource, p := range o.Plugins {
		t.exists(thing{what: fmt.Sprintf("resource %q: resource plugin", resource), name: p.String()}, selectPlugin, o.Org, p.Bare, p.Defaulted().Version)
	}
	named := o.clusters()
	for _, path := range slices.Sorted(maps.Keys(named)) {
		t.exists(thing{what: fmt.Sprintf("%s %q: %s: cluster", this.what, this.name, path), name: named[path]}, selectCluster, o.Org, named[path])
	}
	if isNew {
		t.must(model.ErrKeyTaken, this, insertRoutingKey, o.RoutingKey, o.Org, o.Name)
		t.must(model.ErrExists, this, insertObject,
			o.Org, o.Name, o.kind, o.Cluster, o.RoutingKey, o.Spec, plugins, t.generation, o.CreatedAt, o.UpdatedAt, author)
	} else {
		t.must(model.ErrNotFound, this, updateObject, o.Org, o.Name, o.Spec, plugins, t.generation, o.UpdatedAt, author)
	}
	o = one(t, this, scanObject, selectNamed, o.Org, o.Name)
	t.check(this, []any{o.Org, o.kind}, maximaOf(o, isNew)...)
	return o
}

// Sandbox returns a sandbox, also one that is being deleted.
func (s *Store) Sandbox(ctx context.Context, org, name string) (model.Sandbox, error) {
	return get(ctx, s, Sandbox.named(name), scanSandbox, selectObject, org, Sandbox, name)
}

// Sandboxes returns the sandboxes of an organisation, also those that are being deleted.
func (s *Store) Sandboxes(ctx context.Context, org string) ([]model.Sandbox, error) {
	all, err := database.List(ctx, s.db.Reads(), scanSandbox, selectObjects, org, Sandbox)
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
func (s *Store) markDeleted(ctx context.Context, kind Kind, org, name string, generation int64, force bool, at time.Time, ev model.Event) error {
	_, err := unlessUnchanged(s.write(ctx, org, ev, func(t *tx) {
		o, this, now := t.locked(kind, org, name), kind.named(name), at
		author := model.Author{Principal: ev.By, Role: ev.Role}
		if generation > 0 && o.Generation != generation || !o.DeletedAt.IsZero() && (o.Force || !force) && o.Author == author {
			t.fail(errUnchanged)
		}
		if !o.DeletedAt.IsZero() {
			at = o.DeletedAt
		}
		was := o
		t.changed(o.change())
		t.must(model.ErrNotFound, this, markObjectDeleted, org, name, t.generation, at, o.Force || force, database.JSON{Of: author})
		switch o.DeletedAt = at; {
		case kind == Sandbox:
			t.regroup([]object{was}, o, now)
		case len(o.Status.Clusters) == 0:
			t.must(model.ErrNotFound, this, deleteObject, org, name, kind, t.generation)
		}
	}))
	return err
}

// locked returns an object with the status that it has until the transaction ends.
func (t *tx) locked(kind Kind, org, name string) object {
	t.exec(lockObject, org, name)
	return one(t, kind.named(name), scanObject, selectObject, org, kind, name)
}

// uses returns the resources of objects that have a plugin, by the plugin with its version.
func uses(all []object) map[string][]model.Use {
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
	return found
}
