package forkedworkload

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/baseline"
)

// gather reads all that counts for a ForkedWorkload from the cache. Lists are
// not copied, so nothing of the Input may be changed.
//
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=services;pods,verbs=get;list;watch
func gather(ctx context.Context, c client.Reader, w *crdv1.ForkedWorkload) (Input, error) {
	in := Input{Workload: w}
	inNamespace := client.InNamespace(w.Namespace)

	own := client.MatchingFields{apply.IndexOwner: string(w.UID)}
	neighbours, err := baseline.Neighbours(ctx, c, w.Namespace)
	if err != nil {
		return in, err
	}
	var services corev1.ServiceList
	if err := c.List(ctx, &services, inNamespace, own, client.UnsafeDisableDeepCopy); err != nil {
		return in, fmt.Errorf("list Services of ForkedWorkload %s/%s: %w", w.Namespace, w.Name, err)
	}
	in.Services = append(append(in.Services, neighbours...), services.Items...)
	var deployments appsv1.DeploymentList
	if err := c.List(ctx, &deployments, inNamespace, own, client.UnsafeDisableDeepCopy); err != nil {
		return in, fmt.Errorf("list Deployments of namespace %s: %w", w.Namespace, err)
	}
	in.Deployments = deployments.Items

	if !acceptSpec(w).IsYes() {
		return in, nil
	}
	ref, _ := w.BaselineRef()
	if in.Baseline, err = baseline.Read(ctx, c, ref); err != nil || in.Baseline == nil {
		return in, err
	}
	if in.Fork, err = deployment(ctx, c, w.Namespace, in.identity().DeploymentName(ref.Name)); err != nil {
		return in, err
	}
	in.Pods, err = baseline.Pods(ctx, c, in.Baseline)
	return in, err
}

// deployment reads one Deployment; nil when it does not exist.
func deployment(ctx context.Context, c client.Reader, namespace, name string) (*appsv1.Deployment, error) {
	d := &appsv1.Deployment{}
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, d)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Deployment %s/%s: %w", namespace, name, err)
	}
	return d, nil
}
