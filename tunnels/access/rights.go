package access

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
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
