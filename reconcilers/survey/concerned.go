package survey

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/sidecars/inject"
)

// concerned are the workloads that request sidecars or have a fork.
type concerned struct {
	// asks has each of them, and whether it asks.
	asks map[inject.Workload]bool
	// labels are those that all workloads give their pods.
	labels map[inject.Workload]map[string]string
	// refused are the API server's words for each workload of which it refuses new pods.
	refused map[inject.Workload]string
	forked  map[inject.Workload]bool
	// namespaces are those that ask with a label.
	namespaces map[string]bool
}

// concerning returns the concerned workloads beside these forks; add the workloads.
func concerning(forks []crdv1.ForkedWorkload) concerned {
	k := concerned{map[inject.Workload]bool{}, map[inject.Workload]map[string]string{}, map[inject.Workload]string{}, map[inject.Workload]bool{}, nil}
	for i := range forks {
		ref, _ := forks[i].BaselineRef()
		k.forked[workloadOf(ref.Kind, ref.Namespace, ref.Name)] = true
	}
	return k
}

// deployment adds a Deployment, and rollout a Rollout.
func (k concerned) deployment(d *appsv1.Deployment) {
	k.add(d, baseline.KindDeployment, d.Spec.Template.ObjectMeta)
}

func (k concerned) rollout(o *unstructured.Unstructured) {
	var pod metav1.ObjectMeta
	pod.Annotations, _, _ = unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "annotations")
	pod.Labels, _, _ = unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "labels")
	k.add(o, baseline.KindRollout, pod)
}

// add adds a workload with the metadata of its pods.
func (k concerned) add(o client.Object, kind string, pod metav1.ObjectMeta) {
	w, asks := workloadOf(kind, o.GetNamespace(), o.GetName()), inject.Asks(pod.Annotations[inject.AnnotationInject])
	if _, has := pod.Annotations[inject.AnnotationInject]; !has {
		asks = k.namespaces[o.GetNamespace()]
	}
	k.labels[w] = pod.Labels
	if words := baseline.PodsRefused(o); words != "" {
		k.refused[w] = words
	}
	if o.GetLabels()[crdv1.LabelForkedWorkload] == "" && (asks || k.forked[w]) {
		k.asks[w] = asks
	}
}

// needed returns a function that reports whether requests to a workload need a sidecar: a Service
// selects its pods, and no mesh routes them. A workload without pods that could not be read counts as
// selected.
func (k concerned) needed(paths baseline.Paths, meshed map[inject.Workload]bool) func(inject.Workload, []*corev1.Pod) bool {
	return func(w inject.Workload, pods []*corev1.Pod) bool {
		labels, known := k.labels[w]
		return !meshed[w] && (!known && len(pods) == 0 || paths.LeadTo(w.Namespace, labels, pods))
	}
}

// workloadOf names a workload as sidecars know it.
func workloadOf(kind, namespace, name string) inject.Workload {
	return inject.Workload{Kind: baseline.RoutedKind(crdv1.ObjectRef{Kind: kind}), Namespace: namespace, Name: name}
}
