package lifecyclemethods

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/controller"
)

// Source is where events of pods of units come from.
type Source interface {
	// Source returns the events of pods of units, for a handler.
	Source(h handler.EventHandler) source.Source
}

// Watch adds a watch for the pods of units.
func (r *Reconciler) Watch(b *builder.Builder, _ ctrl.Manager) error {
	b.WatchesRawSource(r.config.Pods.Source(controller.Enqueue(func(_ context.Context, o client.Object) []reconcile.Request {
		ref := metav1.GetControllerOfNoCopy(o)
		if _, is := o.(*corev1.Pod); !is || ref == nil || ref.Kind != crdv1.KindLifecycleMethods {
			return nil
		}
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: ref.Name}}}
	})))
	return nil
}
