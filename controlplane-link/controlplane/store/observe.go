package store

import (
	"context"
	"errors"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store/database"
)

// Observe records the status of an object that is observed in a cluster. That of a route group is the union of its
// parts. It returns false if that changes nothing: it is the same, it is of an older generation than the last one
// of the cluster, or of a newer one than was ever written, or it is the first part of a route group that is being deleted,
// or of a cluster that was deleted.
func (s *Store) Observe(ctx context.Context, what Kind, org, name, cluster string, part model.Status) (changed bool, err error) {
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
		_, has := o.Status.Clusters[cluster]
		if o.DeletedAt.IsZero() || o.Generation != generation || !has && len(o.Status.Clusters) > 0 {
			t.fail(errUnchanged)
		}
		t.dropPart(o, cluster)
	})
	if errors.Is(err, model.ErrNotFound) {
		return false, nil
	}
	return unlessUnchanged(err)
}

// dropPart removes the part of a cluster from an object, and a tombstone without any other. It returns how many ended.
func (t *tx) dropPart(o object, cluster string) (ended int64) {
	t.changed(Change{Kind: o.kind, Org: o.Org, Name: o.Name})
	left := o.Status.Without(cluster)
	if len(left.Clusters) == 0 && !o.DeletedAt.IsZero() {
		t.must(errUnchanged, thing{}, deleteObject, o.Org, o.Name, o.kind, o.Generation)
		return 1
	}
	t.must(errUnchanged, thing{}, partObject, o.Org, o.Name, database.JSON{Of: left})
	return 0
}

// Delivered names the objects that belong in a cluster, and those that belong in all, with those that are being deleted.
func (s *Store) Delivered(ctx context.Context, org, cluster string) ([]Change, error) {
	return database.List(ctx, s.db.Reads(), func(r database.Row) (c Change, err error) {
		return c, r.Scan(&c.Kind, &c.Name)
	}, selectObjectsIn, org, cluster)
}
