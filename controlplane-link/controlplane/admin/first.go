package admin

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
)

// minKey is the length of a key: that of 32 random bytes in base64.
const minKey = 43

// checkEvery is how often Handover reads whether an administrator has logged in.
const checkEvery = 5 * time.Second

// event is the entry of a command in the audit trail.
func event(org, what string, data map[string]any) model.Event {
	by := model.Principal{Kind: model.KindSystem, ID: "command", Name: "command"}
	return store.Entry(model.Caller{Org: org, Principal: by, Method: model.MethodInternal}, what, now(), data)
}

func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

func createOrganisation(ctx context.Context, s *store.Store, name string) error {
	return s.CreateOrganisation(ctx, model.Organisation{Name: name, DisplayName: name, CreatedAt: now()}, event(name, "organisation.create", nil))
}

// createAdmin gives user admin of an organisation one more key.
func createAdmin(ctx context.Context, s *store.Store, org, key string) error {
	u := model.User{Org: org, ID: "admin-" + org, Email: "admin", Role: model.RoleAdmin, CreatedAt: now(), UpdatedAt: now()}
	k := model.APIKey{Org: org, ID: "key-" + rand.Text(), Owner: model.Principal{Kind: model.KindUser, ID: u.ID}, Masked: key[:6], Digest: model.DigestOf(key), CreatedAt: u.CreatedAt}
	if err := s.PutUser(ctx, u, event(org, "user.create", map[string]any{"id": u.ID, "role": u.Role})); err != nil {
		return err
	}
	return s.CreateAPIKey(ctx, k, event(org, "apiKey.create", map[string]any{"id": k.ID, "owner": k.Owner}))
}

// First creates an organisation if it does not exist, and gives its user admin a key unless it has an administrator that
// can log in. Nothing is given if there is none. All replicas can call it, again after each error.
func First(ctx context.Context, s *store.Store, org string, key func(context.Context) (string, error)) error {
	if err := createOrganisation(ctx, s, org); err != nil && !errors.Is(err, model.ErrExists) {
		return err
	}
	in, keys, err := admins(ctx, s, org)
	if err != nil || in || len(keys) > 0 {
		return err
	}
	text, err := key(ctx)
	if err != nil || text == "" {
		return err
	}
	if len(text) < minKey {
		return fmt.Errorf("the key of the first administrator has %d characters: use %d random ones", len(text), minKey)
	}
	if err = createAdmin(ctx, s, org, text); errors.Is(err, model.ErrExists) {
		return nil // by another replica
	}
	return err
}

// admins returns whether an administrator of an organisation has logged in at the issuer, and the keys of all of them.
func admins(ctx context.Context, s *store.Store, org string) (in bool, keys []model.APIKey, err error) {
	users, err := s.Users(ctx, org)
	for _, u := range slices.DeleteFunc(users, func(u model.User) bool { return u.Role != model.RoleAdmin }) {
		of, failed := s.APIKeys(ctx, org, model.Principal{Kind: model.KindUser, ID: u.ID})
		in, keys, err = in || u.Subject != "", append(keys, of...), errors.Join(err, failed)
	}
	return in, keys, err
}

// FirstKey is where the key of the first administrator is: a Secret.
type FirstKey interface {
	Key(ctx context.Context) (string, error)
	Delete(ctx context.Context) error
}

// Handover deletes a key once an administrator of an organisation has logged in, and returns when that was
// done, or when ctx ends. The store forgets the key as well if it was never used. Handover
// logs errors, and tries again.
func Handover(ctx context.Context, s *store.Store, org string, first FirstKey, logger *slog.Logger) error {
	for ctx.Err() == nil {
		in, keys, err := admins(ctx, s, org)
		in = in || slices.ContainsFunc(keys, func(k model.APIKey) bool { return !k.LastUsedAt.IsZero() })
		if in && err == nil {
			err = remove(ctx, s, first, keys)
		}
		switch {
		case err != nil:
			logger.WarnContext(ctx, "The key of the first administrator was not removed.", "error", err)
		case in:
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(checkEvery):
		}
	}
	return nil
}

// remove deletes the first key, and before that its entry in the store if it was never used.
func remove(ctx context.Context, s *store.Store, first FirstKey, keys []model.APIKey) error {
	text, err := first.Key(ctx)
	for _, k := range keys {
		if err == nil && k.Digest == model.DigestOf(text) && k.LastUsedAt.IsZero() {
			err = s.DeleteAPIKey(ctx, k.Org, k.Owner, k.ID, event(k.Org, "apiKey.delete", map[string]any{"id": k.ID, "owner": k.Owner}))
		}
	}
	if err != nil && !errors.Is(err, model.ErrNotFound) { // else another replica has deleted it
		return err
	}
	return first.Delete(ctx)
}

// Secret is the Secret of the cluster in which the program runs that has the first administrator's key.
type Secret struct {
	Cluster         *rest.Config
	Namespace, Name string
}

// keyOf is the key of the data of a Secret.
const keyOf = "api-key"

// Key returns the key in the Secret; "" if there is no Secret. It writes a random one into a Secret without a key, so
// that no release of Helm has it.
func (o Secret) Key(ctx context.Context) (string, error) {
	c, err := client.New(o.Cluster, client.Options{})
	if err != nil {
		return "", err
	}
	for {
		var s corev1.Secret
		if err := c.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: o.Name}, &s); err != nil {
			return "", client.IgnoreNotFound(err)
		}
		if key := s.Data[keyOf]; len(key) > 0 {
			return string(key), nil
		}
		s.Data = map[string][]byte{keyOf: []byte(rand.Text() + rand.Text())}
		if err := c.Update(ctx, &s); err != nil && !apierrors.IsConflict(err) {
			return "", err
		}
	}
}

// Delete deletes the Secret, for Handover.
func (o Secret) Delete(ctx context.Context) error {
	c, err := client.New(o.Cluster, client.Options{})
	if err != nil {
		return err
	}
	return client.IgnoreNotFound(c.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name}}))
}
