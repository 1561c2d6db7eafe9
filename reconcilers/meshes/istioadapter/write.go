package istioadapter

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/meshes/destinationrules"
	"switchyard.dev/reconcilers/meshes/istio"
	"switchyard.dev/reconcilers/meshes/istio/names"
	"switchyard.dev/reconcilers/meshes/istioadapter/managedfields"
	"switchyard.dev/reconcilers/meshes/istioadapter/rewrites"
)

// write updates a VirtualService from have, the cached version, to want. It writes only an annotation
// and leaves the routes to the webhook, since its changes get no field manager, so that spec.http stays
// with its owner (decision record 0041). If the webhook was not called, it writes the routes too, and
// then gives up the ownership of them, as it does after an earlier write that failed in between.
//
// After the webhook has failed to add routes, write does not rely on it in that namespace for a minute:
// each request waits for its response, 2 s if it hangs.
//
// The error is a conflict if the object has changed since it was read.
func (a *Adapter) write(ctx context.Context, have, want *unstructured.Unstructured) (w written, err error) {
	w.got = have
	took := func(got *unstructured.Unstructured, err error) error {
		if err != nil {
			return err
		}
		if got.GetResourceVersion() != w.got.GetResourceVersion() {
			w.past = append(w.past, w.got.GetResourceVersion())
		}
		w.got = got
		return nil
	}
	changed := func(change func(*unstructured.Unstructured)) error {
		return took(edit(ctx, a.config.Client, w.got, change))
	}
	direct := a.direct(have.GetNamespace())
	if !direct {
		o, how := noted(have, want.GetAnnotations()[AnnotationRoutes])
		if err := took(o, send(ctx, a.config.Client, o, how)); err != nil {
			return w, err
		}
	}
	before, whole := w.got.GetManagedFields(), same(w.got, want)
	if !whole {
		if !direct {
			a.miss(have.GetNamespace())
		}
		if err := changed(func(o *unstructured.Unstructured) { become(o, want) }); err != nil {
			return w, err
		}
	}
	if after := owners(before, w.got, want, whole); !reflect.DeepEqual(after, w.got.GetManagedFields()) {
		if err := changed(func(o *unstructured.Unstructured) { o.SetManagedFields(after) }); err != nil {
			return w, err
		}
	}
	if !holds(w.got, want) {
		return w, fmt.Errorf("VirtualService %s/%s: another mutating webhook changes the operator's routes while they are written. "+
			"Exclude from it routes with names that begin with %s, and annotations of istio.signadot.com", have.GetNamespace(), have.GetName(), names.Prefix)
	}
	return w, nil
}

// direct reports whether the webhook is not counted on in a namespace.
func (a *Adapter) direct(namespace string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, missed := a.missed[namespace]
	return missed && time.Since(at) < missing
}

// miss records that the webhook has not added routes, in a namespace.
func (a *Adapter) miss(namespace string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.missed[namespace] = time.Now()
}

// owners returns managedFields in which the operator owns no part of the spec, and no field at all if
// none of its routes are wanted. before are those from before the operator wrote routes, unless the
// webhook added all of them (whole).
func owners(before []metav1.ManagedFieldsEntry, got, want *unstructured.Unstructured, whole bool) []metav1.ManagedFieldsEntry {
	after := got.GetManagedFields()
	if !whole || slices.ContainsFunc(after, managedfields.OwnsSpec) {
		got = got.DeepCopy()
		got.SetManagedFields(managedfields.GivenUp(before, after))
		after = managedfields.Passable(got)
	}
	if want.GetAnnotations()[AnnotationRoutes] == "" {
		after = managedfields.Returned(got)
	}
	return after
}

// become sets the routes, labels and annotations of o to those of want.
func become(o, want *unstructured.Unstructured) {
	want = want.DeepCopy()
	spec, _ := o.Object["spec"].(map[string]any)
	if routes := routesOf(want); routes != nil && spec != nil {
		spec["http"] = routes
	} else {
		delete(spec, "http")
	}
	o.SetLabels(want.GetLabels())
	o.SetAnnotations(want.GetAnnotations())
}

// holds reports whether a VirtualService has the routes that are wanted, and at least the labels
// and annotations.
func holds(got, want *unstructured.Unstructured) bool {
	return names.Equal(routesOf(got), routesOf(want)) && destinationrules.HasAll(got.GetLabels(), want.GetLabels()) &&
		destinationrules.HasAll(got.GetAnnotations(), want.GetAnnotations())
}

// edit patches a VirtualService with a change, and returns the result. The error is a conflict if the
// object has changed since it was read.
func edit(ctx context.Context, c client.Client, have *unstructured.Unstructured, change func(*unstructured.Unstructured)) (*unstructured.Unstructured, error) {
	o := have.DeepCopy()
	change(o)
	return o, send(ctx, c, o, client.MergeFromWithOptions(have, client.MergeFromWithOptimisticLock{}))
}

// send applies a patch to a VirtualService, and updates o to the stored object.
func send(ctx context.Context, c client.Client, o *unstructured.Unstructured, how client.Patch) error {
	if err := c.Patch(ctx, o, how, apply.FieldOwner); err != nil {
		return fmt.Errorf("write VirtualService %s/%s: %w", o.GetNamespace(), o.GetName(), err)
	}
	return nil
}

// noted returns a patch that sets AnnotationRoutes of an object, or removes it if digest is empty, with
// the object to apply it to. The patch is built directly, since computing it from two copies of an
// object with many routes is slow.
func noted(have *unstructured.Unstructured, digest string) (*unstructured.Unstructured, client.Patch) {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(have.GroupVersionKind())
	o.SetNamespace(have.GetNamespace())
	o.SetName(have.GetName())
	value := []byte("null")
	if digest != "" {
		value = strconv.AppendQuote(nil, digest) // Hexadecimal digits.
	}
	return o, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q,"annotations":{%q:%s}}}`, have.GetResourceVersion(), AnnotationRoutes, value))
}

// StatusLeft is the status of a VirtualService that may still have the operator's routes, which no
// program removes for now.
const StatusLeft = "Left"

// ByHand is the advice, to follow a comma, on removing the operator's routes manually.
const ByHand = "or apply each VirtualService again from its owner's file"

// Unreadable reports whether nothing is known of VirtualServices that are there.
func Unreadable(r Report) bool { return r.Trouble != nil && r.Trouble.Reason == ReasonUnreadable }

// LeftIn returns the VirtualServices of an IstioRoute's status that may still have the operator's
// routes when the operator can no longer read or write them.
func LeftIn(all []crdv1.VirtualServiceMatch) (left []crdv1.VirtualServiceMatch) {
	for _, m := range all {
		if m.Status == istio.StatusSkipped || m.Status == istio.StatusIgnored {
			continue
		}
		m.Status, m.Message = StatusLeft, "It can still have routes for the routing key, which are not removed for now."
		left = append(left, m)
	}
	return left
}

// bareOf returns a copy of a VirtualService without the operator's routes, labels and annotations.
func bareOf(o *unstructured.Unstructured) *unstructured.Unstructured {
	bare := istio.Strip(o)
	annotate(bare, AnnotationRoutes, "")
	annotate(bare, rewrites.Annotation, "")
	return bare
}

// Marked reports whether a VirtualService has routes, labels, annotations or managed fields of the
// operator.
func Marked(o *unstructured.Unstructured) bool {
	return !same(o, bareOf(o)) || slices.ContainsFunc(o.GetManagedFields(), managedfields.OwnsSpec)
}

// TakeOut removes the operator's routes, labels, annotations and managed fields from a VirtualService.
// It is for programs that clean up where no Adapter runs. The error is a conflict if the object has
// changed since it was read.
func TakeOut(ctx context.Context, c client.Client, have *unstructured.Unstructured) (err error) {
	want, got, before := bareOf(have), have, have.GetManagedFields()
	if !same(got, want) {
		if got, err = edit(ctx, c, got, func(o *unstructured.Unstructured) { become(o, want) }); err != nil {
			return err
		}
	}
	if after := owners(before, got, want, false); !reflect.DeepEqual(after, got.GetManagedFields()) {
		if got, err = edit(ctx, c, got, func(o *unstructured.Unstructured) { o.SetManagedFields(after) }); err != nil {
			return err
		}
	}
	if Marked(got) {
		return fmt.Errorf("VirtualService %s/%s: something puts our routes back within the write that takes them out. "+
			"End the controller manager, or remove the webhook virtualservices.signadot.com", got.GetNamespace(), got.GetName())
	}
	return nil
}
