package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store/database"
	"switchyard.dev/eventbus/lists"
)

// object is the row of a sandbox or a route group. Both have the same columns.
type object struct {
	kind Kind
	model.Sandbox
}

func scanObject(r database.Row) (o object, err error) {
	err = r.Scan(&o.kind, &o.Org, &o.Name, &o.Cluster, &o.RoutingKey, &o.Spec, database.JSON{Of: &o.Plugins}, &o.Generation,
		&o.CreatedAt, &o.UpdatedAt, &o.DeletedAt, &o.Force, &o.UnmatchedAt, database.JSON{Of: &o.Author}, database.JSON{Of: &o.ForcedBy}, database.JSON{Of: &o.Status})
	if o.Force {
		o.ForcedBy = cmp.Or(o.ForcedBy, o.Author) // older releases write the author alone
	}
	return o, err
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
		plugin := thing{what: fmt.Sprintf("resource %q: resource plugin", resource), name: p.String()}
		t.exists(plugin, selectPlugin, o.Org, p.Bare, p.Defaulted().Version)
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
	return listed(ctx, s, func(o model.Sandbox) (time.Time, string) { return time.Time{}, o.Name },
		scanSandbox, selectObjects, org, Sandbox)
}

// DeleteSandbox makes a sandbox a tombstone with a generation of its own, by the author of the event. One that is a tombstone
// gets a new generation only if force is set and was not, or by another author with no lower role: the cluster may refuse the
// deletion to the first one.
func (s *Store) DeleteSandbox(ctx context.Context, org, name string, force bool, at time.Time, ev model.Event) error {
	return s.markDeleted(ctx, Sandbox, org, name, 0, force, at, ev)
}

// markDeleted makes an object of a generation, 0: of any, a tombstone of the author. If it is that, is one of an author with
// a higher role, or has another generation, nothing is recorded.
func (s *Store) markDeleted(ctx context.Context, kind Kind, org, name string, generation int64, force bool, at time.Time, ev model.Event) error {
	_, err := UnlessUnchanged(s.write(ctx, org, ev, func(t *tx) {
		o, this, now := t.locked(kind, org, name), kind.named(name), at
		author, forcedBy := model.Author{Principal: ev.By, Role: ev.Role}, o.ForcedBy
		if force && !o.ForcedBy.Outranks(author) {
			forcedBy = author
		}
		if !o.DeletedAt.IsZero() {
			at = o.DeletedAt
			if o.Author.Outranks(author) {
				author = o.Author
			}
		}
		if generation > 0 && o.Generation != generation || !o.DeletedAt.IsZero() && forcedBy == o.ForcedBy && author == o.Author {
			t.fail(ErrUnchanged)
		}
		was := o
		t.changed(o.change())
		t.must(model.ErrNotFound, this, markObjectDeleted, org, name, t.generation, at, o.Force || force, database.JSON{Of: author}, database.JSON{Of: forcedBy})
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

func scanGroup(r database.Row) (model.RouteGroup, error) {
	o, err := scanObject(r)
	return model.RouteGroup(o.Sandbox), err
}

// PutRouteGroup is PutSandbox for a route group. The clusters of its endpoints must exist, too.
func (s *Store) PutRouteGroup(ctx context.Context, g model.RouteGroup, ev model.Event) (model.RouteGroup, error) {
	o, err := s.put(ctx, object{RouteGroup, model.Sandbox(g)}, ev)
	return model.RouteGroup(o), err
}

// RouteGroup returns a route group, also one that is being deleted.
func (s *Store) RouteGroup(ctx context.Context, org, name string) (model.RouteGroup, error) {
	return get(ctx, s, RouteGroup.named(name), scanGroup, selectObject, org, RouteGroup, name)
}

// RouteGroups returns the route groups of an organisation, also those that are being deleted.
func (s *Store) RouteGroups(ctx context.Context, org string) ([]model.RouteGroup, error) {
	return listed(ctx, s, func(g model.RouteGroup) (time.Time, string) { return time.Time{}, g.Name },
		scanGroup, selectObjects, org, RouteGroup)
}

// DeleteRouteGroup makes a route group a tombstone with a generation of its own, or removes it if no cluster has a
// part of it.
func (s *Store) DeleteRouteGroup(ctx context.Context, org, name string, at time.Time, ev model.Event) error {
	return s.markDeleted(ctx, RouteGroup, org, name, 0, false, at, ev)
}

// candidates are the sandboxes among objects that route groups can match.
func candidates(all []object) []model.Candidate {
	return model.Candidates(lists.Map(all, func(o object) model.Sandbox { return o.Sandbox }))
}

// regroup sets the generation of the route groups that have a sandbox after a write and had not before, or
// the reverse, to that of the write: their objects change.
func (t *tx) regroup(was []object, is object, at time.Time) {
	before, after := candidates(was), candidates([]object{is})
	if reflect.DeepEqual(before, after) {
		return
	}
	for _, g := range list(t, scanObject, selectObjects, is.Org, RouteGroup) {
		group := model.RouteGroup(g.Sandbox)
		if len(group.Members(before)) != len(group.Members(after)) {
			t.changed(g.change())
			t.renumber(&g, at)
		}
	}
}

// renumber sets the generation of a route group to that of a write at a time, and its UnmatchedAt.
func (t *tx) renumber(g *object, at time.Time) {
	matches := model.RouteGroup(g.Sandbox).Members(candidates(list(t, scanObject, selectObjects, g.Org, Sandbox)))
	g.Generation = t.generation
	switch {
	case len(matches) > 0:
		g.UnmatchedAt = time.Time{}
	case g.UnmatchedAt.IsZero():
		g.UnmatchedAt = at
	}
	t.must(model.ErrNotFound, thing{}, numberGroup, g.Org, g.Name, g.Generation, g.UnmatchedAt)
}

// Observe records the status of an object that is observed in a cluster. That of a route group is the union of its
// parts. It returns false if that changes nothing: it is the same, it is of an older generation than the last one
// of the cluster, or of a newer one than was ever written, or it is the first part of a route group that is being deleted,
// or of a cluster that was deleted.
func (s *Store) Observe(ctx context.Context, what Kind, org, name, cluster string, part model.Status) (changed bool, err error) {
	defer func() {
		if changed {
			s.observed(org)
		}
	}()
	if what == Sandbox {
		n, err := s.db.Observe(ctx, observeObject, org, name, what, part.Generation, database.JSON{Of: part})
		return n == 1, err
	}
	err = s.observe(ctx, func(t *tx) {
		g := t.locked(what, org, name)
		t.exists(thing{}, selectCluster, org, cluster)
		was, has := g.Status.Clusters[cluster]
		if (has || g.DeletedAt.IsZero()) && part.Generation >= was.Generation && part.Generation <= g.Generation {
			n := t.exec(observeObject, org, name, what, g.Generation, database.JSON{Of: g.Status.With(cluster, part)})
			changed = n == 1
		}
	})
	if errors.Is(err, model.ErrNotFound) {
		return false, nil
	}
	return changed && err == nil, err
}

// Finish removes the tombstone of a generation: the cluster has no such object. That of a route group stays until no
// cluster has a part of it. It returns false if that changes nothing, as when another replica was faster.
func (s *Store) Finish(ctx context.Context, what Kind, org, name, cluster string, generation int64, ev model.Event) (bool, error) {
	err := s.write(ctx, org, ev, func(t *tx) {
		o := t.locked(what, org, name)
		if errors.Is(t.err, model.ErrNotFound) {
			t.err = ErrUnchanged
		}
		_, has := o.Status.Clusters[cluster]
		if o.DeletedAt.IsZero() || o.Generation != generation || !has && len(o.Status.Clusters) > 0 {
			t.fail(ErrUnchanged)
		}
		t.dropPart(o, cluster)
	})
	return UnlessUnchanged(err)
}

// dropPart removes the part of a cluster from an object, and a tombstone without any other. It returns how many ended.
func (t *tx) dropPart(o object, cluster string) (ended int64) {
	t.changed(Change{Kind: o.kind, Org: o.Org, Name: o.Name})
	left := o.Status.Without(cluster)
	if len(left.Clusters) == 0 && !o.DeletedAt.IsZero() {
		t.must(ErrUnchanged, thing{}, deleteObject, o.Org, o.Name, o.kind, o.Generation)
		return 1
	}
	t.must(ErrUnchanged, thing{}, partObject, o.Org, o.Name, database.JSON{Of: left})
	return 0
}

// Delivered names the objects that belong in a cluster, and those that belong in all, with those that are being deleted.
func (s *Store) Delivered(ctx context.Context, org, cluster string) ([]Change, error) {
	return database.List(ctx, s.db.Reads(), func(r database.Row) (c Change, err error) {
		return c, r.Scan(&c.Kind, &c.Name)
	}, selectObjectsIn, org, cluster)
}

// EndLifetimes makes tombstones of the sandboxes and route groups of an organisation with a lifetime that has ended at a
// time, also while their cluster is away. The operator never ends one earlier, because its object was created later.
// event returns the entry of the audit trail for one.
func (s *Store) EndLifetimes(ctx context.Context, org string, at time.Time, event func(what Kind, name string) model.Event) error {
	all, err := database.List(ctx, s.db.Reads(), scanObject, selectAllObjects, org)
	for _, o := range all {
		if end := o.Ends(); o.DeletedAt.IsZero() && !end.IsZero() && !at.Before(end) {
			err = errors.Join(err, s.Expire(ctx, o.kind, org, o.Name, o.Generation, at, event(o.kind, o.Name)))
		}
	}
	return err
}

// Expire makes an object a tombstone after its lifetime has ended, unless it has another generation now: it may have been
// extended.
func (s *Store) Expire(ctx context.Context, what Kind, org, name string, generation int64, at time.Time, ev model.Event) error {
	return s.markDeleted(ctx, what, org, name, generation, false, at, ev)
}
