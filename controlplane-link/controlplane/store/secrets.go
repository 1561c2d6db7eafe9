package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store/database"
)

func secret(name string) thing { return thing{what: "secret", name: name} }

func scanSecret(r database.Row) (s model.Secret, err error) {
	return s, r.Scan(&s.Org, &s.Name, &s.Description, &s.CreatedAt, &s.UpdatedAt)
}

// place is what the value of a secret is bound to: it cannot be moved to another row.
func place(org, name string) string { return "secret " + org + "/" + name }

// CreateSecret adds a secret. The error wraps model.ErrExists if there is one.
func (s *Store) CreateSecret(ctx context.Context, v model.Secret, ev model.Event) error {
	key, sealed := s.keys.Seal(place(v.Org, v.Name), v.Value)
	return s.add(ctx, v.Org, ev, secret(v.Name), []maximum{secrets}, insertSecret,
		v.Org, v.Name, v.Description, key, sealed, v.CreatedAt, v.UpdatedAt)
}

// UpdateSecret replaces the value and the description of a secret.
func (s *Store) UpdateSecret(ctx context.Context, v model.Secret, ev model.Event) error {
	key, sealed := s.keys.Seal(place(v.Org, v.Name), v.Value)
	return s.set(ctx, v.Org, ev, secret(v.Name), updateSecret, v.Org, v.Name, v.Description, key, sealed, v.UpdatedAt)
}

// Secret returns a secret without its value.
func (s *Store) Secret(ctx context.Context, org, name string) (model.Secret, error) {
	return get(ctx, s, secret(name), scanSecret, selectSecret, org, name)
}

// Secrets returns the secrets of an organisation, without their values.
func (s *Store) Secrets(ctx context.Context, org string) ([]model.Secret, error) {
	return listed(ctx, s, func(v model.Secret) (time.Time, string) { return time.Time{}, v.Name }, scanSecret, selectSecrets, org)
}

// sealed is a value with the key that it is encrypted with.
type sealed struct{ org, name, key, text string }

func scanSealed(r database.Row) (v sealed, err error) {
	return v, r.Scan(&v.org, &v.name, &v.key, &v.text)
}

// SecretValue returns the value of a secret.
func (s *Store) SecretValue(ctx context.Context, org, name string) (string, error) {
	v, err := get(ctx, s, secret(name), scanSealed, selectSealed, org, name)
	if err != nil {
		return "", err
	}
	return s.keys.Open(v.key, place(org, name), v.text)
}

// DeleteSecret deletes a secret.
func (s *Store) DeleteSecret(ctx context.Context, org, name string, ev model.Event) error {
	return s.set(ctx, org, ev, secret(name), deleteSecret, org, name)
}

// Reseal encrypts the secrets of an organisation again that were encrypted with another key than the
// first one of the file, and returns how many; and all certificates. After that the other keys can be removed from the file.
func (s *Store) Reseal(ctx context.Context, org string, ev model.Event) (n int, err error) {
	err = s.write(ctx, org, ev, func(t *tx) {
		all := list(t, scanSealed, selectSealedWithout, org, s.keys.Current())
		for _, v := range all {
			value, err := s.keys.Open(v.key, place(v.org, v.name), v.text)
			t.fail(err)
			key, text := s.keys.Seal(place(v.org, v.name), value)
			t.must(model.ErrNotFound, secret(v.name), resealSecret, v.org, v.name, key, text)
		}
		n = len(all)
		s.resealCertificates(t)
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// checkKeys returns an error if a secret is encrypted with a key that is not in the file, or the file has
// another key of that identifier: it decrypts one secret of each key.
func (s *Store) checkKeys(ctx context.Context) error {
	used, err := database.List(ctx, s.db.Reads(), database.Column[string], selectSecretKeys)
	if err != nil {
		return fmt.Errorf("read the keys of secrets: %w", err)
	}
	missing := slices.DeleteFunc(slices.Clone(used), s.keys.Has)
	slices.Sort(missing)
	if len(missing) > 0 {
		return fmt.Errorf("secrets are encrypted with keys that are not in the file of keys: add the lines of %s again, after the first one", strings.Join(missing, ", "))
	}
	for _, key := range used {
		v, err := database.One(ctx, s.db.Reads(), scanSealed, selectSealedWith, key)
		if err == nil {
			_, err = s.keys.Open(v.key, place(v.org, v.name), v.text)
		}
		if err != nil && !errors.Is(err, model.ErrNotFound) { // deleted since
			return fmt.Errorf("check the keys of secrets: %w", err)
		}
	}
	return nil
}
