package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
)

// adopted are the kinds of objects that are adopted. Never Secrets or pods: they are in use before
// the operator can compare them.
var adopted = []string{crdv1.KindForkedWorkload, crdv1.KindRoutingConfig, "Deployment", "Rollout", "Service"}

// Restored reports whether have can be an object that the operator created and that a backup
// tool restored without its owner: it has no controller, is not being deleted, and has the label
// of the same sandbox or route group as want.
func Restored(want, have metav1.Object) bool {
	mine := func(label string) bool {
		name := want.GetLabels()[label]
		return name != "" && have.GetLabels()[label] == name
	}
	return (mine(crdv1.LabelSandbox) || mine(crdv1.LabelRouteGroup)) && metav1.GetControllerOfNoCopy(have) == nil && have.GetDeletionTimestamp() == nil
}

// adopt prepares the object of this name for an apply of doc, if it is a restored one with
// the intended specification once doc is applied by force (decision record 54). Then doc gets its fields
// that are kept, and the operator is its only field manager: another one would be in conflict
// with each later change. Otherwise it returns a *Refusal. Until doc is applied the object has no
// owner, and the next attempt adopts it again.
func (w Writer) adopt(ctx context.Context, want client.Object, doc *unstructured.Unstructured, left []Left) (types.UID, error) {
	have := &unstructured.Unstructured{}
	have.SetGroupVersionKind(doc.GroupVersionKind())
	if err := w.Live.Get(ctx, client.ObjectKeyFromObject(want), have); err != nil {
		return "", fmt.Errorf("read %s past the cache: %w", Describe(want), err)
	}
	if !Restored(want, have) {
		return "", taken(want, have)
	}
	if !slices.Contains(adopted, have.GetKind()) {
		return "", Taken(inTheWay(want, "has no owner"))
	}
	if err := keep(doc, have, left); err != nil {
		return "", fmt.Errorf("adopt %s: %w", Describe(want), err)
	}
	forced, err := w.forced(ctx, doc, have)
	if err != nil {
		return "", unlike(want, err)
	}
	equal, err := w.intended(ctx, doc, have, forced)
	if err != nil || !equal {
		return "", unlike(want, err)
	}
	patch, err := release(have, forced)
	if err != nil {
		return "", fmt.Errorf("adopt %s: %w", Describe(want), err)
	}
	if err := w.Client.Patch(ctx, have, client.RawPatch(types.MergePatchType, patch), FieldOwner); err != nil {
		return "", fmt.Errorf("adopt %s: %w", Describe(want), err)
	}
	log.FromContext(ctx).Info("adopted an object without an owner", "object", Describe(want))
	return have.GetUID(), nil
}

// unlike is the refusal of an object that is not adopted; err is why it could not be compared.
// An answer of the API server about the object itself does not change by another attempt.
func unlike(want client.Object, err error) error {
	status := apierrors.APIStatus(nil)
	if err == nil || errors.As(err, &status) && status.Status().Code < 500 && !apierrors.IsTooManyRequests(err) {
		return differs(want)
	}
	return fmt.Errorf("compare %s with the intended object: %w", Describe(want), err)
}

// forced returns the object as it would be after a forced apply of doc.
func (w Writer) forced(ctx context.Context, doc, have *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	out := doc.DeepCopy()
	out.SetUID(have.GetUID())
	err := w.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(out), FieldOwner, client.ForceOwnership, client.DryRunAll)
	return out, err
}

// intended reports whether the object has no field beside the applied ones: whether its
// specification would be the same if it were replaced. Both have the defaults of the API server.
func (w Writer) intended(ctx context.Context, doc, have, forced *unstructured.Unstructured) (bool, error) {
	replace, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": have.GetUID()},
		{"op": "add", "path": "/spec", "value": doc.Object["spec"]},
	})
	if err != nil {
		return false, err
	}
	replaced := &unstructured.Unstructured{}
	replaced.SetGroupVersionKind(have.GroupVersionKind())
	replaced.SetNamespace(have.GetNamespace())
	replaced.SetName(have.GetName())
	err = w.Client.Patch(ctx, replaced, client.RawPatch(types.JSONPatchType, replace), FieldOwner, client.DryRunAll)
	return err == nil && reflect.DeepEqual(forced.Object["spec"], replaced.Object["spec"]), err
}

// release returns the patch that leaves the operator as the only field manager of an object,
// statuses apart, and removes the author: no content of the user who restored it remains.
func release(have, forced *unstructured.Unstructured) ([]byte, error) {
	managers := slices.DeleteFunc(slices.Clone(have.GetManagedFields()), func(m metav1.ManagedFieldsEntry) bool { return m.Subresource == "" })
	managers = append(managers, lists.Filter(forced.GetManagedFields(), func(m metav1.ManagedFieldsEntry) bool {
		return m.Manager == string(FieldOwner) && m.Operation == metav1.ManagedFieldsOperationApply && m.Subresource == ""
	})...)
	return json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": have.GetUID(), "resourceVersion": have.GetResourceVersion(), "managedFields": managers,
		"annotations": map[string]any{crdv1.AnnotationAuthor: nil},
	}})
}

// IndexOwner is the name of an index of objects by the UID of their controller; OwnerOf is its index
// function.
const IndexOwner = "metadata.controller.uid"

// IndexRunnerGroup is the name of an index of Jobs by their runner group, as namespace/name.
const IndexRunnerGroup = "spec.runnerGroup"

// OwnerOf returns the UID of the controller of an object, when it has one.
func OwnerOf(o client.Object) []string {
	if ref := metav1.GetControllerOfNoCopy(o); ref != nil {
		return []string{string(ref.UID)}
	}
	return nil
}

// AddFinalizer adds the operator's finalizer and these annotations to the object, in one write, if they
// are missing. Call it before the first effect outside of the object.
func (w Writer) AddFinalizer(ctx context.Context, o client.Object, annotations ...map[string]string) error {
	return w.change(ctx, o, func() bool {
		changed := controllerutil.AddFinalizer(o, crdv1.Finalizer)
		for _, some := range annotations {
			changed = annotate(o, some) || changed
		}
		return changed
	})
}

// RemoveFinalizer removes the operator's finalizer from the object, if it is there.
func (w Writer) RemoveFinalizer(ctx context.Context, o client.Object) error {
	return client.IgnoreNotFound(w.change(ctx, o, func() bool { return controllerutil.RemoveFinalizer(o, crdv1.Finalizer) }))
}

// annotate sets annotations and reports whether any was different.
func annotate(o client.Object, annotations map[string]string) bool {
	all := lists.Merged(o.GetAnnotations(), annotations)
	if maps.Equal(all, o.GetAnnotations()) {
		return false
	}
	o.SetAnnotations(all)
	return true
}

// change changes the metadata of the version that was read: the list of finalizers is written as a
// whole, and must not lose the entries of others. o becomes the stored object.
func (w Writer) change(ctx context.Context, o client.Object, change func() bool) error {
	base, ok := o.DeepCopyObject().(client.Object)
	if !ok || !change() {
		return nil
	}
	patch := client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
	if err := w.Client.Patch(ctx, o, patch, FieldOwner); err != nil {
		return fmt.Errorf("change metadata of %s: %w", Describe(o), err)
	}
	return nil
}

// Status writes the status of o if it differs from that of before, the copy that it was computed from.
// The error is a conflict if the object has changed since. A change of the condition Ready is logged,
// and recorded as an Event if EventOf returns one.
func (w Writer) Status(ctx context.Context, before, o client.Object) error {
	if equality.Semantic.DeepEqual(before, o) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := w.Client.Status().Patch(ctx, o, patch, FieldOwner); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("write status of %s: %w", Describe(o), err)
	}
	logTurn(ctx, before, o)
	w.recordChanges(ctx, before, o)
	return nil
}
