package apply

import (
	"context"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// IndexOwner is the name of an index of objects by the UID of their controller; OwnerOf is its index
// function.
const IndexOwner = "metadata.controller.uid"

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
	all := maps.Clone(o.GetAnnotations())
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, annotations)
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
