package lifecyclemethods

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// orphans takes away the pods of former objects of this name: those that belong neither to the
// one in the cache (known; empty when the cache has none) nor to the one that the API server
// has. A manager whose cache is old makes a pod for an object that is gone; it runs nothing,
// but our finalizer would keep it.
func (r *Reconciler) orphans(ctx context.Context, name string, known types.UID) error {
	pods, err := r.podsOf(ctx, name)
	if err != nil {
		return err
	}
	var errs []error
	live, asked := types.UID(""), false
	for _, p := range pods {
		owner := metav1.GetControllerOfNoCopy(p)
		if owner.UID == known {
			continue
		}
		if !asked {
			if live, err = r.writer.LiveUID(ctx, crdv1.GroupVersion().WithKind(crdv1.KindLifecycleMethods), client.ObjectKey{Name: name}); err != nil {
				return err
			}
			asked = true
		}
		if owner.UID != live {
			errs = append(errs, r.remove(ctx, p))
		}
	}
	return errors.Join(errs...)
}
