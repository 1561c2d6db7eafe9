package member

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/controller"
)

// IndexGroup is the name of an index of route groups by their sandboxes; SandboxesOf is its index
// function.
const IndexGroup = "spec.sandboxNames"

// SandboxesOf returns the names of the sandboxes of a route group, each once, in the order
// of its list.
func SandboxesOf(o client.Object) []string {
	g, ok := o.(*crdv1.SignadotRouteGroup)
	if !ok {
		return nil
	}
	seen := map[string]bool{"": true}
	var out []string
	for _, name := range g.Spec.SandboxNames {
		if !seen[name] {
			seen[name] = true
			out = append(out, name)
		}
	}
	return out
}

// Groups returns the route groups that name a sandbox. They are shared with the cache.
//
// +kubebuilder:rbac:groups=signadot.com,resources=signadotroutegroups,verbs=get;list;watch
func Groups(ctx context.Context, c client.Reader, sandbox string) ([]crdv1.SignadotRouteGroup, error) {
	var list crdv1.SignadotRouteGroupList
	if err := c.List(ctx, &list, client.MatchingFields{IndexGroup: sandbox}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the route groups of SignadotSandbox %s: %w", sandbox, err)
	}
	return list.Items, nil
}

// ConfigsOf returns the RoutingConfigs with a controller of this UID. They are shared with the cache.
func ConfigsOf(ctx context.Context, c client.Reader, owner types.UID) ([]crdv1.RoutingConfig, error) {
	return ConfigsBy(ctx, c, apply.IndexOwner, string(owner))
}

// ConfigsBy returns the RoutingConfigs that an index has under a value. They are shared with
// the cache.
func ConfigsBy(ctx context.Context, c client.Reader, index, value string) ([]crdv1.RoutingConfig, error) {
	var list crdv1.RoutingConfigList
	if err := c.List(ctx, &list, client.MatchingFields{index: value}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the RoutingConfigs with %s %q: %w", index, value, err)
	}
	return list.Items, nil
}

// IndexNamed is the name of an index that finds RoutingConfigs by the names of the members
// that they name (Name.String).
const IndexNamed = "spec.sandboxedWorkloads"

// NamedBy returns the RoutingConfigs that name a member, regardless of their owners. They are shared
// with the cache.
func NamedBy(ctx context.Context, c client.Reader, m crdv1.Member) ([]crdv1.RoutingConfig, error) {
	return ConfigsBy(ctx, c, IndexNamed, NameOf(m).String())
}

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
	return lists.Unique(out)
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
