package virtualworkload

import (
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/publish"
)

// Setup makes the controller part of the manager. again brings objects that are to be
// looked at although they have not changed.
func (r *Reconciler) Setup(mgr ctrl.Manager, again publish.Again, o controller.Options) error {
	members := baseline.Members{Client: r.config.Client, List: func() client.ObjectList { return &crdv1.VirtualWorkloadList{} }}
	return baseline.Watch(ctrl.NewControllerManagedBy(mgr), members).
		Named("virtualworkload").
		WithOptions(o).
		// Its status, too: what was decided while our last write was not yet in the cache
		// may have found nothing to write, and is decided again when it is there.
		For(&crdv1.VirtualWorkload{}).
		WatchesRawSource(source.Channel(again, &handler.EnqueueRequestForObject{})).
		Complete(r)
}
