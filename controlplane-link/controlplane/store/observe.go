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
	defer func() {
		if changed {
			s.observed(org)
		}
	}()
	if what == Sandbox {
		n, err := s.db.Observe(ctx, observeObject, org, name, string(what), part.Generation, database.JSON{Of: part})
		return n == 1, err
	}
	err = s.db.ObserveIn(ctx, func(ctx context.Context, t *database.Tx) error {
		g, err := lockedObject(ctx, t, what, org, name)
		if err == nil {
			err = database.Exists(ctx, t, selectCluster, org, cluster)
		}
		if err != nil {
			return err
		}
		was, has := g.Status.Clusters[cluster]
		if !has && !g.DeletedAt.IsZero() || part.Generation < was.Generation || part.Generation > g.Generation {
			return nil
		}
		n, err := database.Exec(ctx, t, observeObject, org, name, string(what), g.Generation, database.JSON{Of: g.Status.With(cluster, part)})
		changed = n == 1
		return err
	})
	if errors.Is(err, model.ErrNotFound) {
		return false, nil
	}
	return changed && err == nil, err
}

// Finish removes the tombstone of a generation: the cluster has no such object. That of a route group stays until no
// cluster has a part of it. It returns false if that changes nothing, as when another replica was faster.
func (s *Store) Finish(ctx context.Context, what Kind, org, name, cluster string, generation int64, ev model.Event) (bool, error) {
	err := s.write(ctx, org, ev, func(ctx context.Context, t *tx) error {
		o, err := lockedObject(ctx, t, what, org, name)
		switch _, has := o.Status.Clusters[cluster]; {
		case err != nil && !errors.Is(err, model.ErrNotFound):
			return err
		case o.DeletedAt.IsZero(), o.Generation != generation, !has && len(o.Status.Clusters) > 0:
			return errUnchanged
		}
		_, err = dropPart(ctx, t, what, o, cluster)
		return err
	})
	return unlessUnchanged(err)
}

// dropPart removes the part of a cluster from an object, and a tombstone without any other. It returns how many ended.
func dropPart(ctx context.Context, t *tx, what Kind, o model.Sandbox, cluster string) (ended int64, err error) {
	t.changed(Change{Kind: what, Org: o.Org, Name: o.Name})
	left := o.Status.Without(cluster)
	if len(left.Clusters) == 0 && !o.DeletedAt.IsZero() {
		return 1, database.Must(ctx, t, errUnchanged, deleteObject, o.Org, o.Name, string(what), o.Generation)
	}
	return 0, database.Must(ctx, t, errUnchanged, partObject, o.Org, o.Name, database.JSON{Of: left})
}

// Delivered names the objects that belong in a cluster, and those that belong in all, with those that are being deleted.
func (s *Store) Delivered(ctx context.Context, org, cluster string) ([]Change, error) {
	return database.List(ctx, s.db.Reads(), func(r database.Row) (c Change, err error) {
		return c, r.Scan(&c.Kind, &c.Name)
	}, selectObjectsIn, org, cluster)
}
