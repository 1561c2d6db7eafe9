package sandbox

import (
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/controller"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/routingkey"
)

// Watch adds the sources of events about sandboxes: their parts, others that claim their keys, baselines
// that appear, and what the census has found.
func (r *Reconciler) Watch(b *builder.Builder, mgr ctrl.Manager) error {
	r.census.Again = make(chan event.GenericEvent)
	for _, kind := range crdv1.MadeKinds() {
		b.Owns(kind.New())
	}
	rivals, spec := routingkey.Claimants(r.config.Client, crdv1.KindSandbox), builder.WithPredicates(controller.Updates(controller.SpecChanged))
	b.Watches(&crdv1.SignadotSandbox{}, rivals, spec).
		Watches(&crdv1.SignadotRouteGroup{}, rivals, spec).
		Watches(&crdv1.RoutingConfig{}, rivals, spec).
		WatchesRawSource(source.Channel(r.census.Again, &handler.EnqueueRequestForObject{}))
	member.WatchBaselines(b, mgr.GetClient())
	return nil
}
