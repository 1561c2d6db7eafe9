package inject

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Workload is what a pod belongs to.
type Workload struct {
	// Kind is Deployment or ArgoRollout, as the routes API names them.
	Kind string
	// Namespace and Name are the workload's.
	Namespace, Name string
}

// template hashes are labels that the two controllers put on the pods of each
// of their ReplicaSets, whose name ends in the same hash.
const (
	deploymentHash = "pod-template-hash"
	rolloutHash    = "rollouts-pod-template-hash"
)

// OwnerOf works out the workload of a pod from the pod alone. When there is
// none it returns the reason, for people.
func OwnerOf(pod *corev1.Pod, namespace string) (Workload, string) {
	ref := metav1.GetControllerOf(pod)
	if ref == nil {
		return Workload{}, "the pod has no owner; only pods of a Deployment or a Rollout get a sidecar"
	}
	if ref.Kind != "ReplicaSet" || !strings.HasPrefix(ref.APIVersion, "apps/") {
		return Workload{}, "the pod belongs to the " + ref.Kind + " " + ref.Name +
			"; only pods of a Deployment or a Rollout get a sidecar"
	}
	for _, by := range []struct{ kind, label string }{{"ArgoRollout", rolloutHash}, {"Deployment", deploymentHash}} {
		hash := pod.Labels[by.label]
		if name, cut := strings.CutSuffix(ref.Name, "-"+hash); cut && hash != "" && name != "" {
			return Workload{Kind: by.kind, Namespace: namespace, Name: name}, ""
		}
	}
	return Workload{}, "the ReplicaSet " + ref.Name + " belongs to no Deployment or Rollout, as far as its name and the label " +
		deploymentHash + " on the pod tell"
}
