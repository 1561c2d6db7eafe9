package access

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	authorization "k8s.io/client-go/kubernetes/typed/authorization/v1"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/controlkeys"
	"switchyard.dev/tunnels/identity"
)

// Reviews checks rights with SubjectAccessReviews, of which it sends a bounded number at a time, and
// caches the answers for a short time. It is safe for concurrent use. Make one with NewReviews.
type Reviews struct {
	api     authorization.SubjectAccessReviewInterface
	answers *cache.LRUExpireCache
	asking  chan struct{}
}

// NewReviews returns Reviews without answers. clock returns the current time.
func NewReviews(api authorization.SubjectAccessReviewInterface, now func() time.Time) *Reviews {
	return &Reviews{api, cache.NewLRUExpireCacheWithClock(maxKept, clock(now)), make(chan struct{}, 32)}
}

// question is the cache key of an answer.
type question struct {
	user [32]byte
	what authorizationv1.ResourceAttributes
}

// Allowed reports whether a user has a right, and whether the API server was asked now. The error is why
// there is no answer.
func (r *Reviews) Allowed(ctx context.Context, user identity.User, what authorizationv1.ResourceAttributes) (allowed, asked bool, err error) {
	key := question{user.Key(), what}
	if kept, is := r.answers.Get(key); is {
		return kept.(bool), false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	select {
	case r.asking <- struct{}{}:
		defer func() { <-r.asking }()
	case <-ctx.Done():
		return false, true, errors.New("too many others ask")
	}
	extra := map[string]authorizationv1.ExtraValue{}
	for k, v := range user.Extra {
		extra[k] = v
	}
	review, err := r.api.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Name, UID: user.UID, Groups: user.Groups, Extra: extra, ResourceAttributes: &what,
	}}, metav1.CreateOptions{})
	if err != nil {
		return false, true, err
	}
	allowed, keep := review.Status.Allowed && !review.Status.Denied, keepNo
	if allowed {
		keep = keepYes
	}
	r.answers.Add(key, allowed, keep)
	return allowed, true, nil
}

// MayListServices returns nil when a user may list the Services of a namespace, or of all
// where it is empty, or why not. It is called for many namespaces, so answers are not logged: callers
// log the outcome.
func (a *Access) MayListServices(ctx context.Context, user identity.User, namespace string) *tunnelv1.Refused {
	if user.Name == "" {
		return unauthenticated("the user is unknown")
	}
	allowed, _, err := a.reviews.Allowed(ctx, user, authorizationv1.ResourceAttributes{Verb: "list", Resource: "services", Namespace: namespace})
	switch {
	case err != nil:
		return a.unavailable("for a right of "+user.Name, err)
	case allowed:
		return nil
	}
	where := "in any namespace"
	if namespace != "" {
		where = "in namespace " + namespace
	}
	return &tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_FORBIDDEN,
		Message: fmt.Sprintf("%.253s may not list services %s: ask an administrator of the cluster for that right.", user.Name, where)}
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
