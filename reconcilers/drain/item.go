package drain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/condition"
)

// item is an object that is there.
type item struct {
	kind string
	*metav1.PartialObjectMetadata
}

// String returns the name of the object for messages.
func (i item) String() string { return apply.Describe(i) }

// ofOurs reports whether another of the operator's objects controls the object.
func (i item) ofOurs() bool {
	ref := metav1.GetControllerOfNoCopy(i)
	return ref != nil && ref.APIVersion == crdv1.APIVersion
}

// byPeople reports whether the object is of signadot.com and not created by the operator.
func (i item) byPeople() bool { return i.GroupVersionKind().Group == crdv1.Group && !i.ofOurs() }

// others returns the finalizers that do not belong to the operator.
func (i item) others() []string { return slices.DeleteFunc(slices.Clone(i.Finalizers), ofOperator) }

// held reports whether the object has a finalizer of the operator.
func (i item) held() bool { return len(i.others()) < len(i.Finalizers) }

// forceable reports whether the drain can act on an object, besides waiting for the owners of its
// finalizers.
func (i item) forceable() bool {
	return i.DeletionTimestamp == nil || i.held() || len(i.Finalizers) == 0
}

// list returns all that is there of Kinds, but for strangers.
func (d *draining) list(ctx context.Context) (out []item, err error) {
	err = d.noteRoutes(ctx)
	d.strangers = nil
	for _, kind := range Kinds() {
		more, one := d.listOf(ctx, crdv1.GroupVersion().WithKind(kind))
		if slices.Contains(crdv1.Names(crdv1.MeshKinds()), kind) {
			d.strangers = append(d.strangers, slices.DeleteFunc(slices.Clone(more), item.ofOurs)...)
			more = slices.DeleteFunc(more, item.byPeople)
		}
		out, err = append(out, more...), errors.Join(err, one)
	}
	more, one := d.heldPods(ctx)
	return append(out, more...), errors.Join(err, one)
}

// heldPods returns the pods of units that have a finalizer of the operator.
func (d *draining) heldPods(ctx context.Context) (out []item, err error) {
	for _, ns := range d.everywhere() {
		more, one := d.listOf(ctx, corev1.SchemeGroupVersion.WithKind("Pod"), client.HasLabels{crdv1.LabelLifecycle}, client.InNamespace(ns))
		out, err = append(out, slices.DeleteFunc(more, func(i item) bool { return !i.held() })...), errors.Join(err, one)
	}
	return out, err
}

// listOf returns all that is there of one kind. One that the API server does not serve has
// no objects.
func (d *draining) listOf(ctx context.Context, kind schema.GroupVersionKind, options ...client.ListOption) (out []item, err error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := d.Client.List(ctx, list, options...); meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("list objects of kind %s: %w", kind.Kind, err)
	}
	for i := range list.Items {
		o := &list.Items[i]
		o.SetGroupVersionKind(kind)
		out = append(out, item{kind.Kind, o})
	}
	return out, nil
}

// named returns a text with the names of the first objects, and their finalizers.
func named(all []item) string {
	var out []string
	for _, i := range all {
		name := i.String()
		if len(i.Finalizers) > 0 {
			name += " (held by finalizer " + strings.Join(i.Finalizers, " and ") + ")"
		}
		out = append(out, name)
	}
	return condition.List(out, mostSaid, ", ")
}
