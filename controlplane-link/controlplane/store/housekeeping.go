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
	ended := func(o model.Sandbox) bool { return o.DeletedAt.IsZero() && !o.Ends().IsZero() && !at.Before(o.Ends()) }
	errs := []error{err}
	for _, o := range all {
		if !ended(o) {
			continue
		}
		_, err := unlessUnchanged(s.markDeleted(ctx, Sandbox, org, o.Name, false, at, event(o.Name), func(ctx context.Context, t *tx) error {
			o, err := database.One(ctx, t, scanObject, selectObject, org, o.Name, string(Sandbox))
			if err == nil && !ended(o) { // its lifetime was extended
				err = errUnchanged
			}
			return err
		}))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
