package store

import (
	"context"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store/database"
)

func organisation(name string) thing { return thing{what: "organisation", name: name} }

func user(id string) thing { return thing{what: "user", name: id} }

func serviceAccount(name string) thing { return thing{what: "service account", name: name} }

func scanOrganisation(r database.Row) (o model.Organisation, err error) {
	return o, r.Scan(&o.Name, &o.DisplayName, &o.CreatedAt)
}

// CreateOrganisation creates an organisation. The error wraps model.ErrExists if there is one.
func (s *Store) CreateOrganisation(ctx context.Context, o model.Organisation, ev model.Event) error {
	return organisation(o.Name).of(s.db.Write(ctx, func(ctx context.Context, t *database.Tx) error {
		if err := database.Must(ctx, t, model.ErrExists, insertOrganisation, o.Name, o.DisplayName, o.CreatedAt); err != nil {
			return err
		}
		return record(ctx, t, ev)
	}))
}

// Organisation returns an organisation.
func (s *Store) Organisation(ctx context.Context, name string) (model.Organisation, error) {
	return get(ctx, s, organisation(name), scanOrganisation, selectOrganisation, name)
}

// Organisations returns all organisations.
func (s *Store) Organisations(ctx context.Context) ([]model.Organisation, error) {
	return listed(ctx, s, func(o model.Organisation) (time.Time, string) { return time.Time{}, o.Name },
		scanOrganisation, selectOrganisations)
}

// Generation returns the newest generation of an organisation.
func (s *Store) Generation(ctx context.Context, org string) (int64, error) {
	return get(ctx, s, organisation(org), database.Column[int64], selectGeneration, org)
}

// Adopt makes all later generations of an organisation higher than one: that of an object in a cluster,
// which a newer store has written than the backup that this one comes from.
func (s *Store) Adopt(ctx context.Context, org string, generation int64, ev model.Event) error {
	return s.write(ctx, org, ev, func(t *tx) { t.exec(raiseGeneration, org, generation) })
}

func scanUser(r database.Row) (u model.User, err error) {
	return u, r.Scan(&u.ID, &u.Org, &u.Subject, &u.Email, &u.FirstName, &u.LastName, &u.Avatar, &u.Role, &u.CreatedAt, &u.UpdatedAt)
}

// PutUser creates or replaces a user, by its ID. The time of its creation stays.
func (s *Store) PutUser(ctx context.Context, u model.User, ev model.Event) error {
	return s.write(ctx, u.Org, ev, func(t *tx) {
		for _, other := range list(t, scanUser, selectUserBySubject, u.Org, u.Subject) {
			if other.ID != u.ID {
				t.fail(user(other.ID).of(model.ErrExists))
			}
		}
		t.must(model.ErrExists, user(u.ID), upsertUser,
			u.ID, u.Org, u.Subject, u.Email, u.FirstName, u.LastName, u.Avatar, u.Role, u.CreatedAt, u.UpdatedAt)
	})
}

// User returns a user.
func (s *Store) User(ctx context.Context, org, id string) (model.User, error) {
	return get(ctx, s, user(id), scanUser, selectUser, org, id)
}

// UserBySubject returns the user of a login.
func (s *Store) UserBySubject(ctx context.Context, org, subject string) (model.User, error) {
	return get(ctx, s, thing{what: "user of subject", name: subject}, scanUser, selectUserBySubject, org, subject)
}

// Users returns the users of an organisation, by their creation.
func (s *Store) Users(ctx context.Context, org string) ([]model.User, error) {
	return listed(ctx, s, func(u model.User) (time.Time, string) { return u.CreatedAt, u.ID }, scanUser, selectUsers, org)
}

// DeleteUser deletes a user with its API keys and logins.
func (s *Store) DeleteUser(ctx context.Context, org, id string, ev model.Event) error {
	return s.write(ctx, org, ev, func(t *tx) {
		t.must(model.ErrNotFound, user(id), deleteUser, org, id)
		t.exec(deleteLoginsOf, org, id)
		t.changed(Change{Kind: Login, Org: org, Name: id})
		t.dropCredentials(APIKey, org, model.Principal{Kind: model.KindUser, ID: id})
	})
}

func scanServiceAccount(r database.Row) (a model.ServiceAccount, err error) {
	return a, r.Scan(&a.Org, &a.Name, &a.Description, &a.Role, &a.CreatedAt, &a.UpdatedAt)
}

// CreateServiceAccount creates a service account. The error wraps model.ErrExists if there is one.
func (s *Store) CreateServiceAccount(ctx context.Context, a model.ServiceAccount, ev model.Event) error {
	return s.add(ctx, a.Org, ev, serviceAccount(a.Name), []maximum{accounts}, insertServiceAccount,
		a.Org, a.Name, a.Description, a.Role, a.CreatedAt, a.UpdatedAt)
}

// UpdateServiceAccount replaces the description and the role of a service account.
func (s *Store) UpdateServiceAccount(ctx context.Context, a model.ServiceAccount, ev model.Event) error {
	return s.set(ctx, a.Org, ev, serviceAccount(a.Name), updateServiceAccount, a.Org, a.Name, a.Description, a.Role, a.UpdatedAt)
}

// ServiceAccount returns a service account.
func (s *Store) ServiceAccount(ctx context.Context, org, name string) (model.ServiceAccount, error) {
	return get(ctx, s, serviceAccount(name), scanServiceAccount, selectServiceAccount, org, name)
}

// ServiceAccounts returns the service accounts of an organisation.
func (s *Store) ServiceAccounts(ctx context.Context, org string) ([]model.ServiceAccount, error) {
	return listed(ctx, s, func(a model.ServiceAccount) (time.Time, string) { return time.Time{}, a.Name },
		scanServiceAccount, selectServiceAccounts, org)
}

// DeleteServiceAccount deletes a service account with its API keys.
func (s *Store) DeleteServiceAccount(ctx context.Context, org, name string, ev model.Event) error {
	return s.write(ctx, org, ev, func(t *tx) {
		t.must(model.ErrNotFound, serviceAccount(name), deleteServiceAccount, org, name)
		t.dropCredentials(APIKey, org, model.Principal{Kind: model.KindServiceAccount, ID: name})
	})
}
