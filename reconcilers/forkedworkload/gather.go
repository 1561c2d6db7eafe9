package forkedworkload

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/baseline"
)

// gather reads all that counts for a ForkedWorkload from the cache. operator is the
// operator's own namespace, more reads policies of
// other kinds than NetworkPolicy; nil: there are none. Lists are
// not copied, so nothing of the Input may be changed.
//
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=services;pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch
func gather(ctx context.Context, c client.Reader, w *crdv1.ForkedWorkload, operator string, more Policies) (Input, error) {
	in := Input{Workload: w, OperatorNamespace: operator}
	if err := in.readOwn(ctx, c); err != nil {
		return in, err
	}
	if !acceptSpec(in).IsTrue() {
		return in, nil
	}
	var err error
	if in.Services, err = in.Look(ctx, c, w, in.Services); err != nil || in.Baseline == nil {
		return in, err
	}
	if err := in.readSiblings(ctx, c); err != nil {
		return in, err
	}
	var budgets policyv1.PodDisruptionBudgetList
	if err := c.List(ctx, &budgets, client.InNamespace(w.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return in, fmt.Errorf("list PodDisruptionBudgets of namespace %s: %w", w.Namespace, err)
	}
	in.Budgets = budgets.Items
	if err := in.readPolicies(ctx, c, more); err != nil {
		return in, err
	}
	in.Fork, err = workload(ctx, c, in.Baseline.Ref.Kind, w.Namespace, in.identity().DeploymentName(in.Baseline.Ref.Name))
	return in, err
}

// readOwn reads the objects that the ForkedWorkload owns, and the Services beside its own.
func (in *Input) readOwn(ctx context.Context, c client.Reader) error {
	w := in.Workload
	inNamespace, own := client.InNamespace(w.Namespace), client.MatchingFields{apply.IndexOwner: string(w.UID)}
	neighbours, err := baseline.ServicesIn(ctx, c, w.Namespace)
	if err != nil {
		return err
	}
	var services corev1.ServiceList
	var deployments appsv1.DeploymentList
	rollouts := baseline.NewRolloutList()
	for _, list := range []client.ObjectList{&services, &deployments, rollouts} {
		if err := c.List(ctx, list, inNamespace, own, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list what ForkedWorkload %s/%s made: %w", w.Namespace, w.Name, err)
		}
	}
	in.Services = append(append(in.Services, neighbours...), services.Items...)
	for i := range deployments.Items {
		in.Forks = append(in.Forks, &deployments.Items[i])
	}
	for i := range rollouts.Items {
		in.Forks = append(in.Forks, &rollouts.Items[i])
	}
	var pods corev1.PodList
	mine := client.MatchingFields{indexFork: crdv1.LabelValue(w.Name)}
	if err := c.List(ctx, &pods, inNamespace, mine, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list the pods of ForkedWorkload %s/%s: %w", w.Namespace, w.Name, err)
	}
	in.ForkPods = pods.Items
	return nil
}

// workload reads one Deployment or Rollout; nil when it does not exist.
func workload(ctx context.Context, c client.Reader, kind, namespace, name string) (client.Object, error) {
	var o client.Object = &appsv1.Deployment{}
	if kind == baseline.KindRollout {
		o = baseline.NewRollout()
	}
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s %s/%s: %w", kind, namespace, name, err)
	}
	return o, nil
}
