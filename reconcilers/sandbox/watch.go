package sandbox

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/controller"
	"switchyard.dev/reconcilers/routingkey"
)

// indexBaseline finds sandboxes by the baselines that they name: namespace/name.
const indexBaseline = "baselines"

// Index makes the indexes that a Reconciler reads by; it also reads by those of the packages
// apply and routingkey.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	return indexer.IndexField(ctx, &crdv1.SignadotSandbox{}, indexBaseline, baselinesOf)
}

// baselinesOf returns the baselines that a sandbox names, each once.
func baselinesOf(o client.Object) []string {
	s, ok := o.(*crdv1.SignadotSandbox)
	if !ok {
		return nil
	}
	var out []string
	if s.Spec.Customization != nil {
		for _, p := range s.Spec.Customization.Patches {
			out = append(out, p.Target.Namespace+"/"+p.Target.Name)
		}
	}
	for _, x := range s.Spec.ExternalWorkloads {
		if x.Baseline != nil {
			out = append(out, x.Baseline.Namespace+"/"+x.Baseline.Name)
		}
	}
	for _, v := range s.Spec.VirtualWorkloads {
		out = append(out, v.Baseline.Namespace+"/"+v.Baseline.Name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Watch adds what leads to sandboxes: their parts, others that claim their keys, baselines
// that appear, and what the census has found.
func (r *Reconciler) Watch(b *builder.Builder, mgr ctrl.Manager) error {
	r.census.again = make(chan event.GenericEvent)
	for _, kind := range crdv1.MadeKinds() {
		b.Owns(kind.New())
	}
	rivals, spec := routingkey.Claimants(r.config.Client, crdv1.KindSandbox), builder.WithPredicates(controller.Updates(controller.SpecChanged))
	b.Watches(&crdv1.SignadotSandbox{}, rivals, spec).
		Watches(&crdv1.SignadotRouteGroup{}, rivals, spec).
		Watches(&crdv1.RoutingConfig{}, rivals, spec).
		Watches(&appsv1.Deployment{}, controller.Enqueue(r.byBaseline), builder.WithPredicates(appears())).
		WatchesRawSource(source.Channel(r.census.again, &handler.EnqueueRequestForObject{}))
	if rollouts, ok := mgr.GetClient().(baseline.RolloutSource); ok {
		b.WatchesRawSource(rollouts.Source(baseline.RolloutKind().GroupKind(), controller.Enqueue(r.byBaseline), appears()))
	}
	return nil
}

// appears passes over all but what is created.
func appears() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// byBaseline leads from a workload to the sandboxes that name it: their members could not be
// made while its namespace was missing.
func (r *Reconciler) byBaseline(ctx context.Context, o client.Object) []reconcile.Request {
	return controller.Requests(ctx, r.config.Client, &crdv1.SignadotSandboxList{}, client.MatchingFields{indexBaseline: o.GetNamespace() + "/" + o.GetName()})
}
