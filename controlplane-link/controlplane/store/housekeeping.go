package store

import (
	"context"
	"errors"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store/database"
)

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
