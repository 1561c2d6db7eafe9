package sandbox

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
)

// deleteOrphans deletes what is there of a sandbox that the cache does not have: a leader whose
// cache lagged behind may have made a part after the sandbox had gone. Parts of the
// sandbox that has the name now, if the cache has only not heard of it, are left alone.
// Each part that comes leads here again.
func deleteOrphans(ctx context.Context, c client.Reader, w apply.Writer, name string) error {
	orphans, err := partsOf(ctx, c, name)
	if err != nil || len(orphans) == 0 {
		return err
	}
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(kind(crdv1.KindSandbox))
	if err := w.Live.Get(ctx, client.ObjectKey{Name: name}, live); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("read SignadotSandbox %s: %w", name, err)
	}
	var errs []error
	for _, o := range orphans {
		if live.UID == "" || !apply.IsOwned(o, live.UID) {
			errs = append(errs, w.Delete(ctx, copied(o)))
		}
	}
	return errors.Join(errs...)
}

// partsOf returns the parts, in the cache, whose controller is a sandbox of this name.
func partsOf(ctx context.Context, c client.Reader, name string) ([]client.Object, error) {
	var out []client.Object
	for _, kind := range crdv1.MadeKinds() {
		list := kind.NewList()
		labels := client.MatchingLabels{crdv1.LabelSandbox: crdv1.LabelValue(name)}
		if err := c.List(ctx, list, labels, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("look for what is left of SignadotSandbox %s: %w", name, err)
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			o, ok := item.(client.Object)
			if !ok {
				return nil
			}
			if ref := metav1.GetControllerOfNoCopy(o); ref != nil && ref.Kind == crdv1.KindSandbox && ref.Name == name {
				out = append(out, o)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
