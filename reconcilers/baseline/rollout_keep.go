package baseline

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// KeepProgress leaves of the status of a Rollout how far a fork is.
func KeepProgress(o metav1.Object) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return
	}
	status, ok := u.Object["status"].(map[string]any)
	if !ok {
		return
	}
	kept := map[string]any{}
	for _, field := range []string{"replicas", "updatedReplicas", "availableReplicas", "observedGeneration", "phase", "message", "conditions"} {
		if value, ok := status[field]; ok {
			kept[field] = value
		}
	}
	u.Object["status"] = kept
}
