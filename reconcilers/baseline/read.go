package baseline

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// Read returns the live workload of a reference; nil if it does not exist, or the cluster does not have
// the kind. ref must have a namespace and a kind that AcceptKind accepts. Rollouts are read as
// Unstructured, by the kind RolloutKind: c must know whether the cluster has that kind (package optional),
// or else it asks the API server each time.
//
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch
func Read(ctx context.Context, c client.Reader, ref crdv1.ObjectRef) (*Workload, error) {
	key := client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
	if ref.Kind == KindRollout {
		return readRollout(ctx, c, key)
	}
	if ref.Kind != KindDeployment {
		return nil, nil
	}
	d := &appsv1.Deployment{}
	err := c.Get(ctx, key, d)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", Describe(ref), err)
	}
	return OfDeployment(d), nil
}

// PodSource has the pods of baselines where the cache has not: package pods.
type PodSource interface {
	// PodsOf returns the pods of a workload, which selector selects.
	PodsOf(ctx context.Context, w *Workload, selector labels.Selector) ([]corev1.Pod, error)
	// PodsHeld returns those pods of a namespace that are in memory.
	PodsHeld(ctx context.Context, namespace string) ([]corev1.Pod, error)
	// PodEvents returns a source of events of pods with a sidecar.
	PodEvents(h handler.EventHandler, predicates ...predicate.Predicate) source.Source
}

// Pods reads the pods that the workload owns (Workload.Owns), and the others that its selector
// selects: pods of other workloads with matching labels. It uses PodsOf when c is a PodSource.
// The pods are shared with the cache.
func Pods(ctx context.Context, c client.Reader, w *Workload) (own, others []corev1.Pod, err error) {
	selected, err := selectedPods(ctx, c, w)
	for i := range selected {
		if pod := &selected[i]; w.Owns(pod) {
			own = append(own, *pod)
		} else {
			others = append(others, *pod)
		}
	}
	return own, others, err
}

// selectedPods reads the pods that the selector of the workload selects.
//
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
func selectedPods(ctx context.Context, c client.Reader, w *Workload) ([]corev1.Pod, error) {
	selector, err := metav1.LabelSelectorAsSelector(w.Selector)
	if err != nil {
		return nil, nil // The API server takes no such workload.
	}
	if source, ok := c.(PodSource); ok {
		return source.PodsOf(ctx, w, selector)
	}
	var pods corev1.PodList
	err = c.List(ctx, &pods, client.InNamespace(w.Ref.Namespace),
		client.MatchingLabelsSelector{Selector: selector}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list pods of %s: %w", w, err)
	}
	return pods.Items, nil
}

// ServicesIn returns the Services of a namespace that were not created for a member: those that can select
// a baseline. They are shared with the cache.
//
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch
func ServicesIn(ctx context.Context, c client.Reader, namespace string) ([]corev1.Service, error) {
	var services corev1.ServiceList
	err := c.List(ctx, &services, client.InNamespace(namespace),
		client.MatchingFields{indexNotOfMember: "true"}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list Services of namespace %s: %w", namespace, err)
	}
	return services.Items, nil
}
