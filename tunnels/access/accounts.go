package access

import (
	"context"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/identity"
)

// accountPrefix begins the names of service accounts.
const accountPrefix = "system:serviceaccount:"

// account is the cache key of an answer about a service account.
type account struct{ name, uid string }

// Exists returns nil unless the user is a service account that was deleted, or one that was
// created again under the same name: then it returns the refusal. Other users cannot be checked,
// since the API server does not list them. While the API server is unavailable, the refusal has
// REASON_UNAVAILABLE.
func (a *Access) Exists(ctx context.Context, user identity.User) *tunnelv1.Refused {
	namespace, name, is := strings.Cut(strings.TrimPrefix(user.Name, accountPrefix), ":")
	if !is || !strings.HasPrefix(user.Name, accountPrefix) || a.cfg.Accounts == nil {
		return nil
	}
	key := account{user.Name, user.UID}
	if kept, is := a.existing.Get(key); is {
		return kept.(*tunnelv1.Refused)
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	got, err := a.cfg.Accounts.ServiceAccounts(namespace).Get(ctx, name, metav1.GetOptions{})
	var refused *tunnelv1.Refused
	switch {
	case apierrors.IsForbidden(err):
		a.cfg.Logger.Warn("service accounts cannot be read, so sessions of deleted ones go on: grant the right to get serviceaccounts", "error", err)
	case apierrors.IsNotFound(err):
		refused = unauthenticated("service account %s/%s was deleted", namespace, name)
	case err != nil:
		return a.unavailable("whether "+user.Name+" exists", err)
	case user.UID != "" && string(got.UID) != user.UID:
		refused = unauthenticated("service account %s/%s was deleted and created again: get a new certificate", namespace, name)
	}
	a.existing.Add(key, refused, keepYes)
	return refused
}
