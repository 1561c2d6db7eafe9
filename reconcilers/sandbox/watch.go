package sandbox

import (
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/guard"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/reconcilers/routingkey"
)

// Setup makes the controller part of the manager.
func (r *Reconciler) Setup(mgr ctrl.Manager, _ publish.Again, o controller.Options) error {
	r.census.again = make(chan event.GenericEvent)
	rivals := routingkey.Claimants(r.config.Client, crdv1.KindSandbox)
	return ctrl.NewControllerManagedBy(mgr).
		Named("sandbox").
		WithOptions(o).
		// Its status, too: what was decided while our last write was not yet in the cache
		// may have found nothing to write, and is decided again when it is there.
		For(&crdv1.SignadotSandbox{}).
		Owns(&crdv1.ForkedWorkload{}).
		Owns(&crdv1.SignadotExternalWorkload{}).
		Owns(&crdv1.VirtualWorkload{}).
		Owns(&crdv1.Resource{}).
		Owns(&crdv1.RoutingConfig{}).
		Watches(&crdv1.SignadotSandbox{}, rivals, builder.WithPredicates(guard.Updates(guard.SpecChanged))).
		Watches(&crdv1.SignadotRouteGroup{}, rivals, builder.WithPredicates(guard.Updates(guard.SpecChanged))).
		Watches(&crdv1.RoutingConfig{}, rivals, builder.WithPredicates(guard.Updates(guard.SpecChanged))).
		WatchesRawSource(source.Channel(r.census.again, &handler.EnqueueRequestForObject{})).
		Complete(r)
}
