package store

import (
	"context"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store/database"
)

func scanOrganisation(r database.Row) (o model.Organisation, err error) {
	return o, r.Scan(&o.Name, &o.DisplayName, &o.CreatedAt)
}

// CreateOrganisation creates an organisation. The error wraps model.ErrExists if there is one.
func (s *Store) CreateOrganisation(ctx context.Context, o model.Organisation, ev model.Event) error {
	return of("organisation", o.Name, s.db.Write(ctx, func(ctx context.Context, t *database.Tx) error {
		if err := database.Must(ctx, t, model.ErrExists, insertOrganisation, o.Name, o.DisplayName, o.CreatedAt); err != nil {
			return err
		}
		return record(ctx, t, ev)
	}))
}

// Organisation returns an organisation.
func (s *Store) Organisation(ctx context.Context, name string) (model.Organisation, error) {
	o, err := database.One(ctx, s.db.Reads(), scanOrganisation, selectOrganisation, name)
	return o, of("organisation", name, err)
}

// Organisations returns all organisations.
func (s *Store) Organisations(ctx context.Context) ([]model.Organisation, error) {
	all, err := database.List(ctx, s.db.Reads(), scanOrganisation, selectOrganisations)
	return byName(all, func(o model.Organisation) string { return o.Name }), err
}

// Generation returns the newest generation of an organisation.
func (s *Store) Generation(ctx context.Context, org string) (int64, error) {
	n, err := database.One(ctx, s.db.Reads(), database.Column[int64], selectGeneration, org)
	return n, of("organisation", org, err)
}

// Adopt makes all later generations of an organisation higher than one: that of an object in a cluster,
// which a newer store has written than the backup that this one comes from.
func (s *Store) Adopt(ctx context.Context, org string, generation int64, ev model.Event) error {
	return s.write(ctx, org, ev, func(ctx context.Context, t *tx) error {
		_, err := database.Exec(ctx, t, raiseGeneration, org, generation)
		return err
	})
}

func scanUser(r database.Row) (u model.User, err error) {
	return u, r.Scan(&u.ID, &u.Org, &u.Subject, &u.Email, &u.FirstName, &u.LastName, &u.Avatar, &u.Role, &u.CreatedAt, &u.UpdatedAt)
}

// PutUser creates or replaces a user, by its ID. The time of its creation stays.
func (s *Store) PutUser(ctx context.Context, u model.User, ev model.Event) error {
	return s.write(ctx, u.Org, ev, func(ctx context.Context, t *tx) error {
		if u.Subject != "" {
			other, err := database.List(ctx, t, scanUser, selectUserBySubject, u.Org, u.Subject)
			if err != nil {
				return err
			}
			if len(other) > 0 && other[0].ID != u.ID {
				return of("user", other[0].ID, model.ErrExists)
			}
		}
		return of("user", u.ID, database.Must(ctx, t, model.ErrExists, upsertUser, u.ID, u.Org, u.Subject, u.Email, u.FirstName, u.LastName, u.Avatar, string(u.Role), u.CreatedAt, u.UpdatedAt))
	})
}

// User returns a user.
func (s *Store) User(ctx context.Context, org, id string) (model.User, error) {
	u, err := database.One(ctx, s.db.Reads(), scanUser, selectUser, org, id)
	return u, of("user", id, err)
}

// UserBySubject returns the user of a login.
func (s *Store) UserBySubject(ctx context.Context, org, subject string) (model.User, error) {
	u, err := database.One(ctx, s.db.Reads(), scanUser, selectUserBySubject, org, subject)
	return u, of("user of subject", subject, err)
}

// Users returns the users of an organisation, by their creation.
func (s *Store) Users(ctx context.Context, org string) ([]model.User, error) {
	all, err := database.List(ctx, s.db.Reads(), scanUser, selectUsers, org)
	return byTime(all, func(u model.User) (time.Time, string) { return u.CreatedAt, u.ID }), err
}

// DeleteUser deletes a user with its API keys and logins.
func (s *Store) DeleteUser(ctx context.Context, org, id string, ev model.Event) error {
	return s.write(ctx, org, ev, func(ctx context.Context, t *tx) error {
		if err := database.Must(ctx, t, model.ErrNotFound, deleteUser, org, id); err != nil {
			return of("user", id, err)
		}
		if _, err := database.Exec(ctx, t, deleteLoginsOf, org, id); err != nil {
			return err
		}
		t.changed(Change{Kind: Login, Org: org, Name: id})
		return dropCredentials(ctx, t, APIKey, org, model.Principal{Kind: model.KindUser, ID: id})
	})
}

func scanServiceAccount(r database.Row) (a model.ServiceAccount, err error) {
	return a, r.Scan(&a.Org, &a.Name, &a.Description, &a.Role, &a.CreatedAt, &a.UpdatedAt)
}

// CreateServiceAccount creates a service account. The error wraps model.ErrExists if there is one.
func (s *Store) CreateServiceAccount(ctx context.Context, a model.ServiceAccount, ev model.Event) error {
	return s.add(ctx, a.Org, ev, object{"service account", a.Name}, []maximum{accounts}, insertServiceAccount, a.Org, a.Name, a.Description, string(a.Role), a.CreatedAt, a.UpdatedAt)
}

// UpdateServiceAccount replaces the description and the role of a service account.
func (s *Store) UpdateServiceAccount(ctx context.Context, a model.ServiceAccount, ev model.Event) error {
	return s.set(ctx, a.Org, ev, object{"service account", a.Name}, updateServiceAccount, a.Org, a.Name, a.Description, string(a.Role), a.UpdatedAt)
}

// ServiceAccount returns a service account.
func (s *Store) ServiceAccount(ctx context.Context, org, name string) (model.ServiceAccount, error) {
	a, err := database.One(ctx, s.db.Reads(), scanServiceAccount, selectServiceAccount, org, name)
	return a, of("service account", name, err)
}

// ServiceAccounts returns the service accounts of an organisation.
func (s *Store) ServiceAccounts(ctx context.Context, org string) ([]model.ServiceAccount, error) {
	all, err := database.List(ctx, s.db.Reads(), scanServiceAccount, selectServiceAccounts, org)
	return byName(all, func(a model.ServiceAccount) string { return a.Name }), err
}

// DeleteServiceAccount deletes a service account with its API keys.
func (s *Store) DeleteServiceAccount(ctx context.Context, org, name string, ev model.Event) error {
	return s.write(ctx, org, ev, func(ctx context.Context, t *tx) error {
		if err := database.Must(ctx, t, model.ErrNotFound, deleteServiceAccount, org, name); err != nil {
			return of("service account", name, err)
		}
		return dropCredentials(ctx, t, APIKey, org, model.Principal{Kind: model.KindServiceAccount, ID: name})
	})
}
