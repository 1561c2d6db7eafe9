package access

import (
	"context"
	"errors"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/controlkeys"
	"switchyard.dev/tunnels/identity"
)

// MayListServices returns nil when a user may list the Services of a namespace, or of all
// where it is empty, or why not.
func (a *Access) MayListServices(ctx context.Context, user identity.User, namespace string) *tunnelv1.Refused {
	return a.ask(ctx, user, authorizationv1.ResourceAttributes{Verb: "list", Resource: "services", Namespace: namespace})
}

// asked is the cache key of a question about a resource other than sandboxes.
type asked struct {
	user [32]byte
	what authorizationv1.ResourceAttributes
}

// ask asks for a right, and caches the answer as may does. It is called for many namespaces, so
// answers are not logged: callers log the outcome.
func (a *Access) ask(ctx context.Context, user identity.User, what authorizationv1.ResourceAttributes) *tunnelv1.Refused {
	if user.Name == "" {
		return unauthenticated("the user is unknown")
	}
	key := asked{user.Key(), what}
	if kept, is := a.rights.Get(key); is {
		return kept.(*tunnelv1.Refused)
	}
	allowed, err := a.reviewed(ctx, user, what)
	if err != nil {
		return a.unavailable("for a right of "+user.Name, err)
	}
	keep, refused := keepYes, (*tunnelv1.Refused)(nil)
	if !allowed {
		where := "in any namespace"
		if what.Namespace != "" {
			where = "in namespace " + what.Namespace
		}
		keep, refused = keepNo, &tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_FORBIDDEN,
			Message: fmt.Sprintf("%.253s may not %s %s %s: ask an administrator of the cluster for that right.", user.Name, what.Verb, what.Resource, where)}
	}
	a.rights.Add(key, refused, keep)
	return refused
}

// credential returns the user of a control plane's credential. The answer is not cached, so that one of a
// removed key is refused as soon as the keys were read again.
func (a *Access) credential(ctx context.Context, token, from string) (identity.User, *tunnelv1.Refused) {
	if a.cfg.Credentials == nil {
		return identity.User{}, unauthenticated("credentials of a control plane are not accepted here")
	}
	user, err := a.cfg.Credentials.Check(ctx, token)
	switch {
	case errors.Is(err, controlkeys.ErrUnavailable):
		return identity.User{}, a.unavailable("for the keys of the control plane", err)
	case err != nil:
		a.cfg.Logger.Debug("a credential of the control plane was refused", "from", from, "error", err)
		return identity.User{}, unauthenticated("%s", err)
	}
	a.cfg.Logger.Debug("a credential of the control plane was accepted", "from", from, "user", user.Name)
	return user, nil
}

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
	if kept, is := a.rights.Get(key); is {
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
	a.rights.Add(key, refused, keepYes)
	return refused
}
