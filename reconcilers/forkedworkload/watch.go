package forkedworkload

import (
	"context"
	"errors"
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/controller"
	"switchyard.dev/reconcilers/fork"
	"switchyard.dev/reconcilers/fork/trouble"
	"switchyard.dev/reconcilers/member/recorders"
	"switchyard.dev/reconcilers/policies"
)

const (
	// indexFork finds ForkedWorkloads, and pods of forks, by the value of the label
	// that is on the pods.
	indexFork = "forkedWorkload"
	// indexRefused finds ForkedWorkloads that were refused because the pods of their forks would be
	// selected as pods of their baselines.
	indexRefused = "refusedLabels"
)

// Index adds the cache indexes that a Reconciler uses, in addition to those of the packages apply,
// baseline and member.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	return errors.Join(
		indexer.IndexField(ctx, &corev1.Pod{}, indexFork, func(o client.Object) []string {
			return notEmpty(o.GetLabels()[crdv1.LabelForkedWorkload])
		}),
		indexer.IndexField(ctx, &crdv1.ForkedWorkload{}, indexFork, func(o client.Object) []string {
			return []string{crdv1.LabelValue(o.GetName())}
		}),
		indexer.IndexField(ctx, &crdv1.ForkedWorkload{}, indexNamesForks, sandboxOfNaming),
		indexer.IndexField(ctx, &crdv1.ForkedWorkload{}, indexRefused, refusedLabels))
}

func notEmpty(value string) []string {
	if value == "" {
		return nil
	}
	return []string{value}
}

// refusedLabels returns "true" when a ForkedWorkload is refused for the labels of its pods.
func refusedLabels(o client.Object) []string {
	w, ok := o.(*crdv1.ForkedWorkload)
	if !ok {
		return nil
	}
	c := crdv1.FindCondition(w.Status.Conditions, crdv1.ConditionAccepted)
	if c == nil || c.Reason != fork.ReasonLabelsMatchBaseline {
		return nil
	}
	return []string{"true"}
}

// Watch adds watches for baselines, for objects created for forks, and for selectors that could match a
// fork as its baseline.
func (r *Reconciler) Watch(b *builder.Builder, mgr ctrl.Manager) error {
	baseline.Watch(b, baseline.Members{Client: mgr.GetClient(), List: func() client.ObjectList { return &crdv1.ForkedWorkloadList{} }}).
		Owns(&appsv1.Deployment{}, builder.WithPredicates(controller.Updates(forkChanged))).
		Owns(&corev1.Service{}, builder.WithPredicates(controller.Updates(forkServiceChanged))).
		Watches(&crdv1.ForkedWorkload{}, controller.Enqueue(r.bySibling), builder.WithPredicates(controller.Updates(servicesChanged))).
		Watches(&crdv1.TrafficCapture{}, controller.Enqueue(recorders.Members(crdv1.KindForkedWorkload)), builder.WithPredicates(controller.Updates(captureChanged))).
		Watches(&corev1.Pod{}, controller.Enqueue(r.byForkPod), builder.WithPredicates(controller.Updates(troubleChanged))).
		Watches(&corev1.Service{}, controller.Enqueue(r.bySelector), builder.WithPredicates(controller.Updates(selectorChanged))).
		Watches(&policyv1.PodDisruptionBudget{}, controller.Enqueue(r.bySelector), builder.WithPredicates(controller.Updates(selectorChanged)))
	if rollouts, ok := mgr.GetClient().(baseline.RolloutSource); ok {
		owner := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &crdv1.ForkedWorkload{}, handler.OnlyControllerOwner())
		b.WatchesRawSource(rollouts.Source(baseline.RolloutKind().GroupKind(), owner, controller.Updates(forkChanged)))
	}
	r.watchPolicies(b, mgr)
	return nil
}

// byForkPod maps a pod of a fork that does not start to the ForkedWorkload. Events of healthy pods are
// covered by their Deployment.
func (r *Reconciler) byForkPod(ctx context.Context, o client.Object) []reconcile.Request {
	p, ok := o.(*corev1.Pod)
	if !ok || p.Labels[crdv1.LabelForkedWorkload] == "" {
		return nil
	}
	if _, ok := trouble.OfPod(p); !ok {
		return nil
	}
	return r.find(ctx, client.InNamespace(p.Namespace), client.MatchingFields{indexFork: p.Labels[crdv1.LabelForkedWorkload]})
}

// bySelector maps a Service or a budget to the ForkedWorkloads with pods that it would select as pods of
// their baselines, and to those refused for such a selector, which may have been this one.
func (r *Reconciler) bySelector(ctx context.Context, o client.Object) []reconcile.Request {
	selector := selectorOf(o)
	if o.GetLabels()[crdv1.LabelForkedWorkload] != "" || selector.Empty() {
		return nil
	}
	inNamespace := client.InNamespace(o.GetNamespace())
	out := r.find(ctx, inNamespace, client.MatchingFields{indexRefused: "true"})
	var forks appsv1.DeploymentList
	rollouts := baseline.NewRolloutList()
	for _, list := range []client.ObjectList{&forks, rollouts} {
		if err := r.config.Client.List(ctx, list, inNamespace, client.HasLabels{crdv1.LabelForkedWorkload}, client.UnsafeDisableDeepCopy); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Cannot find the forks that an event is about")
		}
	}
	owner := func(o client.Object, pod map[string]string) {
		if ref := metav1.GetControllerOfNoCopy(o); ref != nil && selector.Matches(labels.Set(pod)) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: o.GetNamespace(), Name: ref.Name}})
		}
	}
	for i := range forks.Items {
		owner(&forks.Items[i], forks.Items[i].Spec.Template.Labels)
	}
	for i := range rollouts.Items {
		pod, _, _ := unstructured.NestedStringMap(rollouts.Items[i].Object, "spec", "template", "metadata", "labels")
		owner(&rollouts.Items[i], pod)
	}
	return out
}

// selectorOf returns the pod selector of a Service or a budget; the empty selector if it selects no pods,
// or all. The hash with which Argo selects one revision of a Rollout is left out: a fork that a Service
// would select later is refused now.
func selectorOf(o client.Object) labels.Selector {
	switch o := o.(type) {
	case *corev1.Service:
		return labels.SelectorFromSet(baseline.ServiceSelector(o))
	case *policyv1.PodDisruptionBudget:
		if selector, err := metav1.LabelSelectorAsSelector(o.Spec.Selector); err == nil {
			return selector
		}
	}
	return labels.NewSelector()
}

// find returns requests for the ForkedWorkloads that the options select.
func (r *Reconciler) find(ctx context.Context, options ...client.ListOption) []reconcile.Request {
	return controller.Requests(ctx, r.config.Client, &crdv1.ForkedWorkloadList{}, options...)
}

// forkChanged filters out updates of a fork's workload that change no field that is read, such as most of
// its status.
func forkChanged(before, after client.Object) bool {
	return progressOf(before) != progressOf(after) || forkMetadataChanged(before, after)
}

// forkMetadataChanged reports whether the fields that the operator writes, or the owners, changed.
func forkMetadataChanged(before, after client.Object) bool {
	return controller.SpecChanged(before, after) || !equality.Semantic.DeepEqual(before.GetOwnerReferences(), after.GetOwnerReferences())
}

// forkServiceChanged filters out updates of a fork's Service that change only its status. Services have no
// generation.
func forkServiceChanged(before, after client.Object) bool {
	b, okB := before.(*corev1.Service)
	a, okA := after.(*corev1.Service)
	return !okA || !okB || forkMetadataChanged(before, after) || !equality.Semantic.DeepEqual(b.Spec, a.Spec)
}

// troubleChanged filters out updates of a fork's pod that do not change its trouble.
func troubleChanged(before, after client.Object) bool {
	b, okB := before.(*corev1.Pod)
	a, okA := after.(*corev1.Pod)
	if !okA || !okB {
		return true
	}
	was, _ := trouble.OfPod(b)
	is, _ := trouble.OfPod(a)
	return was != is
}

// selectorChanged filters out updates of a Service or a budget that do not change its selector.
func selectorChanged(before, after client.Object) bool {
	switch a := after.(type) {
	case *corev1.Service:
		b, ok := before.(*corev1.Service)
		return !ok || !maps.Equal(baseline.ServiceSelector(b), baseline.ServiceSelector(a)) || b.Spec.Type != a.Spec.Type
	case *policyv1.PodDisruptionBudget:
		b, ok := before.(*policyv1.PodDisruptionBudget)
		return !ok || !equality.Semantic.DeepEqual(b.Spec.Selector, a.Spec.Selector)
	}
	return true
}

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
