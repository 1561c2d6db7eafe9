package store

import (
	"cmp"
	"context"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store/database"
)

// held is a devbox, and the principal that has its session.
type held struct {
	model.Devbox
	by string
}

func scanDevbox(r database.Row) (d held, err error) {
	var session model.DevboxSession
	err = r.Scan(&d.Org, &d.ID, &d.UserID, database.JSON{Of: &d.Metadata}, &d.CreatedAt, &d.UpdatedAt,
		&session.ID, &d.by, &session.CreatedAt, &session.RenewedAt, &session.ValidUntil)
	if session.ID != "" {
		d.Session = &session
	}
	return d, err
}

// holder is a principal as the table names it.
func holder(p model.Principal) string { return string(p.Kind) + "/" + p.ID }

// free returns model.ErrHeld if another principal has a session of a devbox that has not ended at a time.
func free(ctx context.Context, t *tx, org, id string, self model.Principal, at time.Time) error {
	d, err := database.One(ctx, t, scanDevbox, selectDevbox, org, id)
	if err == nil && d.Connected(at) != nil && d.by != holder(self) {
		err = model.ErrHeld
	}
	return err
}

// RegisterDevbox adds a devbox, or replaces the metadata of one that is known. It reports whether the
// devbox is new.
func (s *Store) RegisterDevbox(ctx context.Context, d model.Devbox, ev model.Event) (isNew bool, err error) {
	metadata := database.JSON{Of: d.Metadata}
	err = s.write(ctx, d.Org, ev, func(ctx context.Context, t *tx) error {
		n, err := database.Exec(ctx, t, insertDevbox, d.Org, d.ID, d.UserID, metadata, d.CreatedAt, d.UpdatedAt)
		if isNew = n == 1; err != nil || isNew {
			return cmp.Or(err, t.check(ctx, []any{d.Org}, devboxes))
		}
		return of("devbox", d.ID, database.Must(ctx, t, model.ErrNotFound, updateDevbox, d.Org, d.ID, metadata, d.UpdatedAt))
	})
	return isNew && err == nil, err
}

// Devbox returns a devbox. Its session may have ended.
func (s *Store) Devbox(ctx context.Context, org, id string) (model.Devbox, error) {
	d, err := database.One(ctx, s.db.Reads(), scanDevbox, selectDevbox, org, id)
	return d.Devbox, of("devbox", id, err)
}

// Devboxes returns the devboxes of an organisation, by their creation.
func (s *Store) Devboxes(ctx context.Context, org string) ([]model.Devbox, error) {
	all, err := database.List(ctx, s.db.Reads(), scanDevbox, selectDevboxes, org)
	var out []model.Devbox
	for _, d := range all {
		out = append(out, d.Devbox)
	}
	return byTime(out, func(d model.Devbox) (time.Time, string) { return d.CreatedAt, d.ID }), err
}

// ClaimDevbox begins a session, at the time that it was created. The error wraps model.ErrHeld while
// another principal has one.
func (s *Store) ClaimDevbox(ctx context.Context, org, id string, session model.DevboxSession, ev model.Event) error {
	return s.write(ctx, org, ev, func(ctx context.Context, t *tx) error {
		err := free(ctx, t, org, id, ev.By, session.CreatedAt)
		if err == nil {
			err = database.Must(ctx, t, model.ErrNotFound, claimDevbox, org, id, session.ID, holder(ev.By), session.CreatedAt, session.RenewedAt, session.ValidUntil)
		}
		return of("devbox", id, err)
	})
}

// RenewDevbox extends a session. The error wraps model.ErrHeld if it is not that of the devbox, or has
// ended.
func (s *Store) RenewDevbox(ctx context.Context, org, id, session string, at, until time.Time) error {
	n, err := s.db.Observe(ctx, renewDevbox, org, id, session, at, until)
	if err != nil || n == 1 {
		return err
	}
	if err := database.Exists(ctx, s.db.Reads(), selectDevbox, org, id); err != nil {
		return of("devbox", id, err)
	}
	return of("devbox", id, model.ErrHeld)
}

// ReleaseDevbox ends the session of a principal. Without a session it changes nothing. The error wraps
// model.ErrHeld while another principal has one, at the time of the event.
func (s *Store) ReleaseDevbox(ctx context.Context, org, id string, ev model.Event) error {
	return s.write(ctx, org, ev, func(ctx context.Context, t *tx) error {
		err := free(ctx, t, org, id, ev.By, ev.At)
		if err == nil {
			err = database.Must(ctx, t, model.ErrNotFound, claimDevbox, org, id, "", "", time.Time{}, time.Time{}, time.Time{})
		}
		return of("devbox", id, err)
	})
}

// DeleteDevbox deletes a devbox. The error wraps model.ErrHeld while another principal has a session, at
// the time of the event.
func (s *Store) DeleteDevbox(ctx context.Context, org, id string, ev model.Event) error {
	return s.write(ctx, org, ev, func(ctx context.Context, t *tx) error {
		err := free(ctx, t, org, id, ev.By, ev.At)
		if err == nil {
			err = database.Must(ctx, t, model.ErrNotFound, deleteDevbox, org, id)
		}
		return of("devbox", id, err)
	})
}

// DeleteIdleDevboxes deletes the devboxes that were neither registered nor renewed since a time.
func (s *Store) DeleteIdleDevboxes(ctx context.Context, org string, since time.Time, ev model.Event) (n int64, err error) {
	err = s.write(ctx, org, ev, func(ctx context.Context, t *tx) error {
		if n, err = database.Exec(ctx, t, deleteIdleDevboxes, org, since); err == nil && n == 0 {
			return errUnchanged
		}
		return err
	})
	_, err = unlessUnchanged(err)
	return n, err
}
