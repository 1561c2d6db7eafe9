package store

import (
	"cmp"
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
	ended := func(o model.Sandbox) bool { return o.DeletedAt.IsZero() && !o.Ends().IsZero() && !at.Before(o.Ends()) }
	errs := []error{err}
	for _, o := range all {
		if !ended(o) {
			continue
		}
		_, err := unlessUnchanged(s.write(ctx, org, event(o.Name), func(ctx context.Context, t *tx) error {
			now, err := database.List(ctx, t, scanObject, selectObject, org, o.Name, string(Sandbox))
			if err != nil || len(now) == 0 || !ended(now[0]) { // its lifetime was extended
				return cmp.Or(err, errUnchanged)
			}
			t.changed(Change{Kind: Sandbox, Org: org, Cluster: o.Cluster, Name: o.Name})
			return database.Must(ctx, t, errUnchanged, markObjectDeleted, org, o.Name, t.generation, at, now[0].Force)
		}))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
