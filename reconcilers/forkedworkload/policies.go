package forkedworkload

import (
	"context"
	"fmt"
	"maps"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/controller"
	"switchyard.dev/reconcilers/policies"
)

// readPolicies reads the policies that may apply to pods of the namespace.
func (in *Input) readPolicies(ctx context.Context, c client.Reader, more Policies) error {
	namespace := in.Workload.Namespace
	var all networkingv1.NetworkPolicyList
	if err := c.List(ctx, &all, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list NetworkPolicies of namespace %s: %w", namespace, err)
	}
	for i := range all.Items {
		in.Policies = append(in.Policies, policies.OfNetworkPolicy(&all.Items[i]))
	}
	if more == nil {
		return nil
	}
	others, err := more.In(ctx, namespace)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	in.Policies, in.PoliciesUnread = append(in.Policies, others...), err
	return nil
}

// watchPolicies adds the policies that may apply to pods.
func (r *Reconciler) watchPolicies(b *builder.Builder, mgr ctrl.Manager) {
	b.Watches(&networkingv1.NetworkPolicy{}, controller.Enqueue(r.byPolicy), builder.WithPredicates(controller.Updates(podsChanged)))
	optional, is := mgr.GetClient().(baseline.RolloutSource)
	if !is || r.config.Policies == nil {
		return
	}
	for _, kind := range policies.OfWorkloads(policies.Kinds(r.config.PolicySettings.Kinds)) {
		b.WatchesRawSource(optional.Source(kind.GroupKind(), controller.Enqueue(r.byPolicy), controller.Updates(controller.SpecChanged)))
	}
}

// byPolicy returns requests for the ForkedWorkloads of the namespace of a policy; for all of them
// where the policy may apply in other namespaces too, or its kind was installed or removed.
func (r *Reconciler) byPolicy(ctx context.Context, o client.Object) []reconcile.Request {
	kind := o.GetObjectKind().GroupVersionKind().GroupKind()
	for _, k := range policies.OfWorkloads(policies.Kinds(r.config.PolicySettings.Kinds)) {
		if k.GroupKind() == kind && k.Crosses(o.GetNamespace()) {
			return r.find(ctx)
		}
	}
	return r.find(ctx, client.InNamespace(o.GetNamespace()))
}

// podsChanged ignores updates of a cached NetworkPolicy with the same pods and the same settings.
func podsChanged(before, after client.Object) bool {
	b, okB := before.(*networkingv1.NetworkPolicy)
	a, okA := after.(*networkingv1.NetworkPolicy)
	return !okA || !okB || !equality.Semantic.DeepEqual(b.Spec.PodSelector, a.Spec.PodSelector) || !maps.Equal(b.Annotations, a.Annotations)
}
