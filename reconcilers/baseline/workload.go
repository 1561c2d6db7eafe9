package baseline

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/sidecars/inject"
)

// Kinds of baselines, as custom resources name them.
const (
	KindDeployment = "Deployment"
	KindRollout    = "Rollout"
)

// Workload is the live workload of a member. It is shared with the cache and must not be changed.
type Workload struct {
	// Ref is the complete reference to the workload.
	Ref crdv1.ObjectRef
	// UID is that of the object, by which one life of it is known.
	UID types.UID
	// Generation counts the changes of its spec.
	Generation int64
	// Selector selects its pods.
	Selector *metav1.LabelSelector
	// Template is its pod template. It is never nil.
	Template *corev1.PodTemplateSpec
	// Problem is a message for users about why the pod template is not known; Template is empty then, and
	// no request can be routed to its pods. "" if it is known.
	Problem string
	// Object is the workload itself: an *appsv1.Deployment, or the Rollout as
	// *unstructured.Unstructured.
	Object client.Object
}

// OfDeployment returns a Deployment as a Workload, and nil for nil.
func OfDeployment(d *appsv1.Deployment) *Workload {
	if d == nil {
		return nil
	}
	return &Workload{
		Ref: crdv1.ObjectRef{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: KindDeployment, Namespace: d.Namespace, Name: d.Name},
		UID: d.UID, Generation: d.Generation, Selector: d.Spec.Selector, Template: &d.Spec.Template, Object: d,
	}
}

// Routed returns the workload as facts, sidecars and the routes API name it.
func (w *Workload) Routed() inject.Workload {
	return inject.Workload{Kind: RoutedKind(w.Ref), Namespace: w.Ref.Namespace, Name: w.Ref.Name}
}

// Owns reports whether a pod belongs to the workload. A selector does not decide that: those of
// two workloads can overlap. Package coverage and the injector use the same definition.
func (w *Workload) Owns(pod *corev1.Pod) bool {
	owner, none := inject.OwnerOf(pod, pod.Namespace)
	return none == "" && owner == w.Routed()
}

// String returns kind namespace/name, for messages.
func (w *Workload) String() string { return Describe(w.Ref) }

// AnnotationMainContainer is the annotation of kubectl for the main container of a pod template.
const AnnotationMainContainer = "kubectl.kubernetes.io/default-container"

// MainContainer returns the name of the main container: the one in the annotation, or the only one. It
// returns "" if that does not decide it; kubectl would take the first of several.
func (w *Workload) MainContainer() string {
	all, main := w.Template.Spec.Containers, w.Template.Annotations[AnnotationMainContainer]
	if len(all) == 1 {
		return all[0].Name
	}
	if slices.ContainsFunc(all, func(c corev1.Container) bool { return c.Name == main }) {
		return main
	}
	return ""
}

// RoutedKind is the kind as facts, sidecars and the routes API know it: they call
// a Rollout ArgoRollout.
func RoutedKind(ref crdv1.ObjectRef) string {
	if ref.Kind == KindRollout {
		return "ArgoRollout"
	}
	return ref.Kind
}

// Describe names a workload for messages, as kind namespace/name.
func Describe(ref crdv1.ObjectRef) string {
	if ref.Namespace == "" {
		return ref.Kind + " " + ref.Name
	}
	return ref.Kind + " " + ref.Namespace + "/" + ref.Name
}

// NameOf returns the name of a baseline in the form of crdv1.AnnotationBaseline. ref must have a
// namespace.
func NameOf(ref crdv1.ObjectRef) string { return ref.Kind + "/" + ref.Namespace + "/" + ref.Name }

// Same reports whether two references name the same workload; the version of the API
// does not count.
func Same(a, b crdv1.ObjectRef) bool {
	return a.Kind == b.Kind && a.Namespace == b.Namespace && a.Name == b.Name
}

// ReasonNoBaseline is the reason of conditions of an external workload that has no baseline.
// It is as the spec asks, and no caveat.
const ReasonNoBaseline = "NoBaseline"

// Caveats returns the conditions of a member that are True and contain a caveat: those with a
// reason that differs from their type. Ready repeats others and is left out. Of several
// conditions with the same reason it returns the first.
func Caveats(m crdv1.Conditioned) []crdv1.StatusCondition {
	var out []crdv1.StatusCondition
	for _, c := range *m.StatusConditions() {
		same := func(other crdv1.StatusCondition) bool { return other.Reason == c.Reason }
		if isCaveat(c) && c.ObservedGeneration >= m.GetGeneration() && !slices.ContainsFunc(out, same) {
			out = append(out, c)
		}
	}
	return out
}

func isCaveat(c crdv1.StatusCondition) bool {
	return c.Status == string(metav1.ConditionTrue) && c.Type != crdv1.ConditionReady &&
		!slices.Contains([]string{"", c.Type, ReasonNoBaseline}, c.Reason)
}

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
