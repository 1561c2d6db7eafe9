package admission

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Limits of the SubjectAccessReviews.
const (
	// atOnce is how many questions are open, of one review and of all together.
	atOnce, atOnceInAll = 8, 32
	// mostWants is how many rights one object may need: each is a question.
	mostWants = 200
	// remembered is the lifetime of cached positive answers, and mostRemembered the size of the cache.
	// Negative answers are not cached, since the right may have been granted since.
	remembered, mostRemembered = 5 * time.Second, 4096
)

// asker sends SubjectAccessReviews to the API server.
type asker struct {
	client client.Client
	now    func() time.Time
	slots  chan struct{}

	mu    sync.Mutex
	known map[[sha256.Size]byte]time.Time // until when a right is known to be there
}

func newAsker(c client.Client, now func() time.Time) *asker {
	return &asker{client: c, now: now, slots: make(chan struct{}, atOnceInAll), known: map[[sha256.Size]byte]time.Time{}}
}

// lacking returns those of the rights that the user has not, in their order; of more than a
// refusal names, not all: it asks no further then. An error means that the API server has
// not answered in time.
//
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
func (a *asker) lacking(ctx context.Context, user authenticationv1.UserInfo, wants []Want) ([]Want, error) {
	denied := make([]string, len(wants))
	var found atomic.Int32
	asking, ctx := errgroup.WithContext(ctx)
	asking.SetLimit(atOnce)
	for i, w := range wants {
		if found.Load() > mostTold {
			break
		}
		asking.Go(func() (err error) {
			if denied[i], err = a.denied(ctx, user, w.Access); denied[i] != "" {
				found.Add(1)
			}
			return err
		})
	}
	if err := asking.Wait(); err != nil {
		return nil, err
	}
	var out []Want
	for i, w := range wants {
		if denied[i] != "" {
			out = append(out, w)
		}
	}
	return out, nil
}

// denied returns why the user has not a right; empty: the user has it.
func (a *asker) denied(ctx context.Context, user authenticationv1.UserInfo, access Access) (string, error) {
	key, err := keyOf(user, access)
	if err != nil {
		return "", err
	}
	if a.recall(key) {
		return "", nil
	}
	select {
	case a.slots <- struct{}{}:
		defer func() { <-a.slots }()
	case <-ctx.Done():
		return "", fmt.Errorf("ask whether the author may %s: %w", access, ctx.Err())
	}
	review := reviewFor(user, access)
	if err := a.client.Create(ctx, review); err != nil {
		return "", fmt.Errorf("ask whether the author may %s: %w", access, err)
	}
	switch s := review.Status; {
	case s.Allowed && !s.Denied:
		a.keep(key)
		return "", nil
	case s.EvaluationError != "":
		return s.EvaluationError, nil
	default:
		return "no rule allows it", nil
	}
}

// reviewFor is the question whether a user has a right.
func reviewFor(user authenticationv1.UserInfo, access Access) *authorizationv1.SubjectAccessReview {
	extra := map[string]authorizationv1.ExtraValue{}
	for k, v := range user.Extra {
		extra[k] = authorizationv1.ExtraValue(v)
	}
	resource, subresource, _ := strings.Cut(access.Resource, "/")
	return &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, Groups: user.Groups, UID: user.UID, Extra: extra,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: access.Verb, Group: access.Group, Resource: resource, Subresource: subresource, Namespace: access.Namespace, Name: access.Name,
		},
	}}
}

// keyOf names a right of a user, with all that the answer may depend on.
func keyOf(user authenticationv1.UserInfo, access Access) (key [sha256.Size]byte, err error) {
	text, err := json.Marshal([]any{user, access})
	if err != nil {
		return key, fmt.Errorf("name the right to %s: %w", access, err)
	}
	return sha256.Sum256(text), nil
}

// recall reports whether a right is known to be there.
func (a *asker) recall(key [sha256.Size]byte) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.now().Before(a.known[key])
}

// keep remembers a right for a while.
func (a *asker) keep(key [sha256.Size]byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.known) >= mostRemembered {
		clear(a.known)
	}
	a.known[key] = a.now().Add(remembered)
}
