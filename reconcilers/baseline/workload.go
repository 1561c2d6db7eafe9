package baseline

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
