package store

import (
	"context"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store/database"
)

// Database returns the database, for packages that have tables of their own in it.
func (s *Store) Database() *database.DB { return s.db }

// Write runs a write to such a table in an organisation, with its entry in the audit trail, and notifies watchers of the
// changes that it returns. Writes of an organisation are serial; generation is that of this one.
func (s *Store) Write(ctx context.Context, org string, ev model.Event, do func(ctx context.Context, t *database.Tx, generation int64) ([]Change, error)) error {
	return s.write(ctx, org, ev, func(t *tx) {
		t.recorded = map[string]int64{"generation": t.generation}
		changes, err := do(t.ctx, t.Tx, t.generation)
		t.fail(err)
		for _, c := range changes {
			t.changed(c)
		}
	})
}

// Observed notifies watchers that statuses in an organisation have changed.
func (s *Store) Observed(org string) { s.observed(org) }
