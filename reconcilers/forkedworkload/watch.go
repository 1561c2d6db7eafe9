package forkedworkload

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/guard"
	"switchyard.dev/reconcilers/publish"
)

// Setup makes the controller part of the manager. again brings objects that are
// to be looked at although they have not changed.
func (r *Reconciler) Setup(mgr ctrl.Manager, again publish.Again, o controller.Options) error {
	members := baseline.Members{Client: mgr.GetClient(), List: func() client.ObjectList { return &crdv1.ForkedWorkloadList{} }}
	return baseline.Watch(ctrl.NewControllerManagedBy(mgr), members).
		Named("forkedworkload").
		WithOptions(o).
		// Its status, too: what was decided while our last write was not yet in the cache
		// may have found nothing to write, and is decided again when it is there.
		For(&crdv1.ForkedWorkload{}).
		Owns(&appsv1.Deployment{}, builder.WithPredicates(guard.Updates(deploymentChanged))).
		Owns(&corev1.Service{}).
		WatchesRawSource(source.Channel(again, &handler.EnqueueRequestForObject{})).
		Complete(r)
}

// deploymentChanged passes over changes of a fork that nobody here reads.
func deploymentChanged(before, after client.Object) bool {
	b, okB := before.(*appsv1.Deployment)
	a, okA := after.(*appsv1.Deployment)
	return !okA || !okB || guard.SpecChanged(before, after) || !equality.Semantic.DeepEqual(b.Status, a.Status)
}
