package istioadapter

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/meshes/istio"
	"switchyard.dev/reconcilers/meshes/istioadapter/managedfields"
	"switchyard.dev/reconcilers/meshes/istioadapter/rewrites"
)

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
