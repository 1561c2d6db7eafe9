package store

import (
	"context"
	"errors"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
)

// EndSandboxes makes tombstones of the sandboxes of an organisation with a lifetime that has ended at a time, also
// while their cluster is away. The operator never ends one earlier, because its object was created later. event
// returns the entry of the audit trail for one.
func (s *Store) EndSandboxes(ctx context.Context, org string, at time.Time, event func(name string) model.Event) error {
	all, err := s.Sandboxes(ctx, org)
	for _, o := range all {
		if ended(o.Ends(), o.DeletedAt, at) {
			err = errors.Join(err, s.Expire(ctx, Sandbox, org, o.Name, o.Generation, at, event(o.Name)))
		}
	}
	return err
}

// EndRouteGroups is EndSandboxes for route groups.
func (s *Store) EndRouteGroups(ctx context.Context, org string, at time.Time, event func(name string) model.Event) error {
	all, err := s.RouteGroups(ctx, org)
	for _, g := range all {
		if ended(g.Ends(), g.DeletedAt, at) {
			err = errors.Join(err, s.Expire(ctx, RouteGroup, org, g.Name, g.Generation, at, event(g.Name)))
		}
	}
	return err
}

// ended reports whether a lifetime with an end, or none, has ended at a time, and the object is no tombstone yet.
func ended(end, deleted, at time.Time) bool {
	return deleted.IsZero() && !end.IsZero() && !at.Before(end)
}

// Expire makes an object a tombstone after its lifetime has ended, unless it has another generation now: it may have been
// extended.
func (s *Store) Expire(ctx context.Context, what Kind, org, name string, generation int64, at time.Time, ev model.Event) error {
	return s.markDeleted(ctx, what, org, name, generation, false, at, ev)
}
