package member

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/controller"
)

// IndexBaselines is the name of an index that finds sandboxes by the baselines that they name;
// its function is BaselinesOf.
const IndexBaselines = "spec.baselines"

// Index makes the indexes of sandboxes that this package reads by.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	return indexer.IndexField(ctx, &crdv1.SignadotSandbox{}, IndexBaselines, BaselinesOf)
}

// BaselinesOf returns the baselines that a sandbox names, as namespace/name, each once.
func BaselinesOf(o client.Object) []string {
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

// WatchBaselines enqueues sandboxes when a baseline that they name is created: members
// cannot be made while its namespace is missing.
func WatchBaselines(b *builder.Builder, c client.Reader) {
	created := predicate.Funcs{
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
	named := controller.Enqueue(func(ctx context.Context, o client.Object) []reconcile.Request {
		return controller.Requests(ctx, c, &crdv1.SignadotSandboxList{}, client.MatchingFields{IndexBaselines: o.GetNamespace() + "/" + o.GetName()})
	})
	b.Watches(&appsv1.Deployment{}, named, builder.WithPredicates(created))
	if rollouts, ok := c.(baseline.RolloutSource); ok {
		b.WatchesRawSource(rollouts.Source(baseline.RolloutKind().GroupKind(), named, created))
	}
}
