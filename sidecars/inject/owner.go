package inject

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Workload is what a pod belongs to.
type Workload struct {
	// Kind is Deployment or ArgoRollout, as the routes API names them.
	Kind string
	// Namespace and Name are the workload's.
	Namespace, Name string
}

// Template hashes are labels that the two controllers put on the pods of each of their
// ReplicaSets, which have names that end in the same hash.
const (
	deploymentHash = appsv1.DefaultDeploymentUniqueLabelKey
	// RolloutHash is the label that pods of a Rollout have in place of a Deployment's.
	RolloutHash = "rollouts-pod-template-hash"
)

// OwnerOf works out the workload of a pod from the pod alone. When there is
// none it returns the reason, for people.
func OwnerOf(pod metav1.Object, namespace string) (Workload, string) {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		return Workload{}, "the pod has no owner; only pods of a Deployment or a Rollout get a sidecar"
	}
	if ref.Kind != "ReplicaSet" || !strings.HasPrefix(ref.APIVersion, "apps/") {
		return Workload{}, "the pod belongs to the " + ref.Kind + " " + ref.Name +
			"; only pods of a Deployment or a Rollout get a sidecar"
	}
	for _, by := range []struct{ kind, label string }{{"ArgoRollout", RolloutHash}, {"Deployment", deploymentHash}} {
		hash := pod.GetLabels()[by.label]
		if name, cut := strings.CutSuffix(ref.Name, "-"+hash); cut && hash != "" && name != "" {
			return Workload{Kind: by.kind, Namespace: namespace, Name: name}, ""
		}
	}
	return Workload{}, "the ReplicaSet " + ref.Name + " belongs to no Deployment or Rollout, according to its name and the label " +
		deploymentHash + " on the pod"
}
