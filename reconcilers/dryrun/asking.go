package dryrun

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errNotAsked: the API server could not be asked, since the caller has not the rights.
var errNotAsked = errors.New("the API server was not asked")

// asks reports whether the API server is asked about objects of a kind that controllers
// write: the workloads of forks, and Services.
func asks(gvk schema.GroupVersionKind) bool {
	return gvk.Kind == "Deployment" || gvk.Kind == "Service" || isRollout(gvk)
}

// asking asks the API server whether it would take objects, with dryRun=All: it
// checks them in full, quotas and admission webhooks too, and keeps nothing.
type asking struct {
	client client.Client
	// manager is the field manager of the requests.
	manager string
}

// ask returns the object as the API server would store it, errNotAsked, or the error of the API
// server.
func (a asking) ask(ctx context.Context, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	doc := o.DeepCopy()
	doc.SetManagedFields(nil)
	doc.SetResourceVersion("")
	if strings.HasPrefix(string(doc.GetUID()), newUID) {
		doc.SetUID("")
	}
	unstructured.RemoveNestedField(doc.Object, "status")
	err := a.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(doc), client.DryRunAll, client.ForceOwnership, client.FieldOwner(a.manager))
	if apierrors.IsForbidden(err) {
		return nil, a.refusalOf(ctx, o, err)
	}
	return doc, err
}

// refusalOf returns errNotAsked if the caller lacks the right to write such objects, and otherwise the API
// server's error about the object itself.
func (a asking) refusalOf(ctx context.Context, o *unstructured.Unstructured, refused error) error {
	gvk := o.GroupVersionKind()
	mapping, err := a.client.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return refused
	}
	for _, verb := range []string{"patch", "create"} {
		if may, err := a.may(ctx, verb, gvk.Group, mapping.Resource.Resource, o.GetNamespace(), o.GetName()); err != nil || !may {
			return fmt.Errorf("%w whether it would take %s %s: you may not %s %s.%s, so its own checks (admission webhooks, quotas) are not seen",
				errNotAsked, gvk.Kind, o.GetName(), verb, mapping.Resource.Resource, gvk.Group)
		}
	}
	return refused
}

// may reports whether the caller has a right.
func (a asking) may(ctx context.Context, verb, group, resource, namespace, name string) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource, Namespace: namespace, Name: name},
	}}
	err := a.client.Create(ctx, review)
	return review.Status.Allowed, err
}

// refuses reports whether an error is about the object itself, so that a repeated request fails too.
func refuses(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err) || apierrors.IsNotFound(err) ||
		apierrors.IsConflict(err) || apierrors.IsRequestEntityTooLargeError(err) || meta.IsNoMatchError(err)
}

// taken sends an object of the caller to the API server with dryRun=All, and reports whether it would
// be accepted. A refusal is recorded.
func (s *simulation) taken(ctx context.Context, o client.Object) (bool, error) {
	if s.config.Client == nil {
		return true, nil
	}
	content, gvk, err := s.world.document(o)
	if err != nil {
		return false, err
	}
	delete(content, "status")
	_, err = asking{s.config.Client, s.config.Manager}.ask(ctx, &unstructured.Unstructured{Object: content})
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, errNotAsked):
		s.world.noteUnknown(err.Error())
		return true, nil
	case refuses(err):
		id := identity{gvk.GroupKind(), client.ObjectKeyFromObject(o)}
		s.refusals = append(s.refusals, Refusal{id.object(), err.Error()})
		return false, nil
	}
	return false, fmt.Errorf("ask the API server whether it would take it: %w", err)
}

// answer is the reply of the API server about an object: as it would be stored, or an error.
type answer struct {
	stored *unstructured.Unstructured
	err    error
}

// accepted asks the API server about an object that a controller would write, each
// version of it once. The controller reports a refusal. accepted returns the object as it would be
// stored; nil when the API server was not asked.
func (w *world) accepted(ctx context.Context, doc *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if w.asking.client == nil || !asks(doc.GroupVersionKind()) {
		return nil, nil
	}
	text, err := doc.MarshalJSON()
	if err != nil {
		return nil, err
	}
	got, ok := w.answers[string(text)]
	if !ok {
		got.stored, got.err = w.asking.ask(ctx, doc)
		w.answers[string(text)] = got
	}
	if errors.Is(got.err, errNotAsked) {
		w.noteUnknown(got.err.Error())
		return nil, nil
	}
	return got.stored, got.err
}

// unchanged reports whether the object that the API server would store is the one that it has, and
// that this world has not changed yet. An admission policy can rewrite fields, so that the object
// differs from each document that is applied, and no apply changes it.
func (w *world) unchanged(stored *unstructured.Unstructured) (bool, error) {
	gvk := stored.GroupVersionKind()
	id := identity{gvk.GroupKind(), client.ObjectKeyFromObject(stored)}
	have := w.read[id]
	if _, written := w.written[id]; written || have == nil {
		return false, nil
	}
	would, err := blank(w.scheme, gvk)
	if err != nil {
		return false, err
	}
	if err := copyJSON(would, stored); err != nil {
		return false, err
	}
	return w.same(have, would)
}

// noteUnknown records, once, something that the dry run cannot find out.
func (w *world) noteUnknown(what string) {
	if !slices.Contains(w.unknown, what) {
		w.unknown = append(w.unknown, what)
	}
}
