package kubeapi

import (
	"context"
	"encoding/json"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	authorization "k8s.io/client-go/kubernetes/typed/authorization/v1"

	"switchyard.dev/controlplane-link/kubeapi/table"
	crdv1 "switchyard.dev/protos/crd/v1"
)

const (
	// keepYes and keepNo are the lifetimes of cached answers, of which maxKept are kept.
	keepYes, keepNo = 10 * time.Second, 2 * time.Second
	maxKept         = 4096
	// askWithin bounds one SubjectAccessReview.
	askWithin = 4 * time.Second
)

// rights checks the rights of users with SubjectAccessReviews.
type rights struct {
	reviews authorization.SubjectAccessReviewInterface
	answers *cache.LRUExpireCache
}

func newRights(reviews authorization.SubjectAccessReviewInterface) *rights {
	return &rights{reviews, cache.NewLRUExpireCache(maxKept)}
}

// allow reports whether a user may send a request. The control plane itself has no groups, and the
// rights of the table; discovery is open to all.
func (r *rights) allow(ctx context.Context, user crdv1.Author, q table.Request) (bool, error) {
	if len(user.Groups) == 0 || q.Discovery {
		return true, nil
	}
	spec := authorizationv1.SubjectAccessReviewSpec{User: user.User, Groups: user.Groups, ResourceAttributes: &authorizationv1.ResourceAttributes{
		Verb: q.Verb, Group: q.Group, Version: q.Version, Resource: q.Resource, Subresource: q.Subresource, Namespace: q.Namespace, Name: q.Name,
	}}
	if q.Group == "" && q.Resource == "namespaces" {
		spec.ResourceAttributes.Namespace = q.Name // as the API server authorizes it
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return false, err
	}
	if known, is := r.answers.Get(string(text)); is {
		return known.(bool), nil
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	review, err := r.reviews.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	allowed := review.Status.Allowed && !review.Status.Denied
	keep := keepNo
	if allowed {
		keep = keepYes
	}
	r.answers.Add(string(text), allowed, keep)
	return allowed, nil
}
