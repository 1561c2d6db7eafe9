package lifecyclemethods

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// orphans deletes the pods of previous objects of this name: those that belong neither to the object in
// the cache (known; empty if the cache has none) nor to the object at the API server. A manager with a
// stale cache can create a pod for a deleted object; the pod runs nothing, but the operator's finalizer
// would keep it.
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
