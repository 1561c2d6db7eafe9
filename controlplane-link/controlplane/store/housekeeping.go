package store

import (
	"context"
	"errors"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store/database"
)

// EndSandboxes makes tombstones of the sandboxes of an organisation with a lifetime that has ended at a time, also
// while their cluster is away. The operator never ends one earlier, because its object was created later. event
// returns the entry of the audit trail for one.
func (s *Store) EndSandboxes(ctx context.Context, org string, at time.Time, event func(name string) model.Event) error {
	all, err := s.Sandboxes(ctx, org)
	read := func(ctx context.Context, t *tx, name string) (model.Sandbox, error) {
		return database.One(ctx, t, scanObject, selectObject, org, name, string(Sandbox))
	}
	ends := func(o model.Sandbox) (string, time.Time, bool) { return o.Name, o.Ends(), !o.DeletedAt.IsZero() }
	return errors.Join(err, end(ctx, s, Sandbox, org, at, all, ends, read, event))
}

// EndRouteGroups is EndSandboxes for route groups.
func (s *Store) EndRouteGroups(ctx context.Context, org string, at time.Time, event func(name string) model.Event) error {
	all, err := s.RouteGroups(ctx, org)
	read := func(ctx context.Context, t *tx, name string) (model.RouteGroup, error) {
		return database.One(ctx, t, scanGroup, selectGroup, org, name)
	}
	ends := func(g model.RouteGroup) (string, time.Time, bool) { return g.Name, g.Ends(), !g.DeletedAt.IsZero() }
	return errors.Join(err, end(ctx, s, RouteGroup, org, at, all, ends, read, event))
}

// end deletes those of all objects that have ended, unless a lifetime was extended since they were read.
func end[T any](ctx context.Context, s *Store, what Kind, org string, at time.Time, all []T, ends func(T) (name string, end time.Time, deleted bool), read func(context.Context, *tx, string) (T, error), event func(name string) model.Event) error {
	ended := func(o T) bool {
		_, end, deleted := ends(o)
		return !deleted && !end.IsZero() && !at.Before(end)
	}
	var errs []error
	for _, o := range all {
		if !ended(o) {
			continue
		}
		name, _, _ := ends(o)
		errs = append(errs, s.markDeleted(ctx, what, org, name, false, at, event(name), func(ctx context.Context, t *tx, _ model.Sandbox) error {
			o, err := read(ctx, t, name)
			if err == nil && !ended(o) {
				err = errUnchanged
			}
			return err
		}))
	}
	return errors.Join(errs...)
}

// Expire makes an object a tombstone after its lifetime has ended in a cluster, unless it has another generation now.
func (s *Store) Expire(ctx context.Context, what Kind, org, name string, generation int64, at time.Time, ev model.Event) error {
	return s.markDeleted(ctx, what, org, name, false, at, ev, func(_ context.Context, _ *tx, o model.Sandbox) error {
		if o.Generation != generation {
			return errUnchanged
		}
		return nil
	})
}
