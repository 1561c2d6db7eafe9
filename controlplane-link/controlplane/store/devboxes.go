package store

import (
	"context"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store/database"
	"switchyard.dev/eventbus/lists"
)

// held is a devbox, and the principal that has its session.
type held struct {
	model.Devbox
	by string
}

func devbox(id string) thing { return thing{what: "devbox", name: id} }

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

// free fails with model.ErrHeld if another principal than the author of an event has a session of a devbox that has
// not ended at a time.
func (t *tx) free(org, id string, ev model.Event, at time.Time) {
	d := one(t, devbox(id), scanDevbox, selectDevbox, org, id)
	if d.Connected(at) != nil && d.by != holder(ev.By) {
		t.fail(devbox(id).of(model.ErrHeld))
	}
}

// RegisterDevbox adds a devbox, or replaces the metadata of one that is known. It reports whether the
// devbox is new.
func (s *Store) RegisterDevbox(ctx context.Context, d model.Devbox, ev model.Event) (isNew bool, err error) {
	metadata := database.JSON{Of: d.Metadata}
	err = s.write(ctx, d.Org, ev, func(t *tx) {
		isNew = t.exec(insertDevbox, d.Org, d.ID, d.UserID, metadata, d.CreatedAt, d.UpdatedAt) == 1
		if isNew {
			t.check(thing{}, []any{d.Org}, devboxes)
		} else {
			t.must(model.ErrNotFound, devbox(d.ID), updateDevbox, d.Org, d.ID, metadata, d.UpdatedAt)
		}
	})
	return isNew && err == nil, err
}

// Devbox returns a devbox. Its session may have ended.
func (s *Store) Devbox(ctx context.Context, org, id string) (model.Devbox, error) {
	d, err := get(ctx, s, devbox(id), scanDevbox, selectDevbox, org, id)
	return d.Devbox, err
}

// Devboxes returns the devboxes of an organisation, by their creation.
func (s *Store) Devboxes(ctx context.Context, org string) ([]model.Devbox, error) {
	all, err := listed(ctx, s, func(d held) (time.Time, string) { return d.CreatedAt, d.ID }, scanDevbox, selectDevboxes, org)
	return lists.Map(all, func(d held) model.Devbox { return d.Devbox }), err
}

// ClaimDevbox begins a session, at the time that it was created. The error wraps model.ErrHeld while
// another principal has one.
func (s *Store) ClaimDevbox(ctx context.Context, org, id string, session model.DevboxSession, ev model.Event) error {
	return s.write(ctx, org, ev, func(t *tx) {
		t.free(org, id, ev, session.CreatedAt)
		t.must(model.ErrNotFound, devbox(id), claimDevbox,
			org, id, session.ID, holder(ev.By), session.CreatedAt, session.RenewedAt, session.ValidUntil)
	})
}

// RenewDevbox extends a session. The error wraps model.ErrHeld if it is not that of the devbox, or has
// ended.
func (s *Store) RenewDevbox(ctx context.Context, org, id, session string, at, until time.Time) error {
	n, err := s.db.Observe(ctx, renewDevbox, org, id, session, at, until)
	if err != nil || n == 1 {
		return err
	}
	if err = database.Exists(ctx, s.db.Reads(), selectDevbox, org, id); err == nil {
		err = model.ErrHeld
	}
	return devbox(id).of(err)
}

// ReleaseDevbox ends the session of a principal. Without a session it changes nothing. The error wraps
// model.ErrHeld while another principal has one, at the time of the event.
func (s *Store) ReleaseDevbox(ctx context.Context, org, id string, ev model.Event) error {
	return s.write(ctx, org, ev, func(t *tx) {
		t.free(org, id, ev, ev.At)
		t.must(model.ErrNotFound, devbox(id), claimDevbox, org, id, "", "", time.Time{}, time.Time{}, time.Time{})
	})
}

// DeleteDevbox deletes a devbox. The error wraps model.ErrHeld while another principal has a session, at
// the time of the event.
func (s *Store) DeleteDevbox(ctx context.Context, org, id string, ev model.Event) error {
	return s.write(ctx, org, ev, func(t *tx) {
		t.free(org, id, ev, ev.At)
		t.must(model.ErrNotFound, devbox(id), deleteDevbox, org, id)
	})
}

// DeleteIdleDevboxes deletes the devboxes that were neither registered nor renewed since a time.
func (s *Store) DeleteIdleDevboxes(ctx context.Context, org string, since time.Time, ev model.Event) (n int64, err error) {
	err = s.write(ctx, org, ev, func(t *tx) {
		if n = t.exec(deleteIdleDevboxes, org, since); n == 0 {
			t.fail(ErrUnchanged)
		}
	})
	_, err = UnlessUnchanged(err)
	return n, err
}
