package adapter

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/reconcilers/apply"
)

// write brings a VirtualService from what it is, as the cache has it, to what is wanted. It
// writes no more than an annotation, and leaves the routes to the webhook: what that puts in is
// attributed to nobody, so that spec.http stays its owner's (decision record 0041). Where the
// webhook was not asked it writes the routes too, and then gives up that they are its own.
// A conflict says that somebody else has written meanwhile.
func write(ctx context.Context, c client.Client, have, want *unstructured.Unstructured) error {
	got, err := touch(ctx, c, have, want)
	if err != nil {
		return err
	}
	after := got.GetManagedFields()
	if !same(got, want) {
		before := after
		patch := append([]operation{{"test", "/metadata/resourceVersion", got.GetResourceVersion()}}, patchOf(got, want)...)
		if err := send(ctx, c, got, types.JSONPatchType, patch); err != nil {
			return err
		}
		after = givenUp(before, got.GetManagedFields())
		with := got.DeepCopy()
		with.SetManagedFields(after)
		after = passable(with)
	}
	if want.GetAnnotations()[AnnotationRoutes] == "" {
		after = slices.DeleteFunc(slices.Clone(after), ours) // Nothing of it is ours any more.
	}
	if reflect.DeepEqual(after, got.GetManagedFields()) {
		return nil
	}
	return send(ctx, c, got, types.JSONPatchType, []operation{
		{"test", "/metadata/resourceVersion", got.GetResourceVersion()}, {"add", "/metadata/managedFields", after},
	})
}

// touch writes the annotation, and returns the object as it is then.
func touch(ctx context.Context, c client.Client, have, want *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	var value any
	if d := want.GetAnnotations()[AnnotationRoutes]; d != "" {
		value = d
	}
	got := have.DeepCopy()
	return got, send(ctx, c, got, types.MergePatchType, map[string]any{"metadata": map[string]any{
		"resourceVersion": have.GetResourceVersion(), "annotations": map[string]any{AnnotationRoutes: value},
	}})
}

// send sends a patch of an object, which becomes what the API server then has.
func send(ctx context.Context, c client.Client, o *unstructured.Unstructured, as types.PatchType, patch any) error {
	text, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("write a patch of VirtualService %s/%s: %w", o.GetNamespace(), o.GetName(), err)
	}
	if err := c.Patch(ctx, o, client.RawPatch(as, text), apply.FieldOwner); err != nil {
		return fmt.Errorf("write VirtualService %s/%s: %w", o.GetNamespace(), o.GetName(), err)
	}
	return nil
}
