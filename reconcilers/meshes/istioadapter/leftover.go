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

// StatusLeft is that of a VirtualService in which routes of ours may be left, which nobody takes
// out for now.
const StatusLeft = "Left"

// ByHand says what people can do about routes of ours that nobody takes out, to follow a comma.
const ByHand = "or apply each VirtualService again from its owner's file"

// Unreadable reports whether nothing is known of VirtualServices that are there.
func Unreadable(r Report) bool { return r.Trouble != nil && r.Trouble.Reason == ReasonUnreadable }

// LeftIn returns those VirtualServices of an IstioRoute's status that may have routes of ours,
// where nobody knows any more or may change them.
func LeftIn(all []crdv1.VirtualServiceMatch) (left []crdv1.VirtualServiceMatch) {
	for _, m := range all {
		if m.Status == istio.StatusSkipped || m.Status == istio.StatusIgnored {
			continue
		}
		m.Status, m.Message = StatusLeft, "It may still have routes for the routing key, which nobody takes out for now."
		left = append(left, m)
	}
	return left
}

// bareOf returns a copy of a VirtualService without anything of ours.
func bareOf(o *unstructured.Unstructured) *unstructured.Unstructured {
	bare := istio.Strip(o)
	annotate(bare, AnnotationRoutes, "")
	annotate(bare, rewrites.Annotation, "")
	return bare
}

// Marked reports whether a VirtualService has anything of ours.
func Marked(o *unstructured.Unstructured) bool {
	return !same(o, bareOf(o)) || slices.ContainsFunc(o.GetManagedFields(), managedfields.OwnsSpec)
}

// TakeOut takes everything of ours out of a VirtualService where no Adapter does. It is what a
// program does that ends for the operator. A conflict says that somebody else has written
// meanwhile.
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
