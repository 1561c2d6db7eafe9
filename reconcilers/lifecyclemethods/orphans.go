package lifecyclemethods

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
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
	var pods corev1.PodList
	if err := r.config.Pods.List(ctx, &pods, client.MatchingLabels{crdv1.LabelLifecycle: crdv1.LabelValue(name)}); err != nil {
		return fmt.Errorf("list the pods of units of %s: %w", name, err)
	}
	var errs []error
	live, asked := types.UID(""), false
	for i := range pods.Items {
		p := &pods.Items[i]
		owner := metav1.GetControllerOfNoCopy(p)
		if owner == nil || owner.Kind != crdv1.KindLifecycleMethods || owner.Name != name || owner.UID == known {
			continue
		}
		if !asked {
			var err error
			if live, err = r.writer.LiveUID(ctx, crdv1.GroupVersion().WithKind(crdv1.KindLifecycleMethods), client.ObjectKey{Name: name}); err != nil {
				return err
			}
			asked = true
		}
		if owner.UID != live {
			errs = append(errs, r.writer.Delete(ctx, p), r.letGo(ctx, p))
		}
	}
	return errors.Join(errs...)
}
