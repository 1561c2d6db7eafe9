package baseline

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PodsRefused returns the API server's words when it refuses new pods of a Deployment or a
// Rollout: the message of its condition ReplicaFailure while that is True; otherwise empty.
func PodsRefused(o client.Object) string {
	switch o := o.(type) {
	case *appsv1.Deployment:
		for _, c := range o.Status.Conditions {
			if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
				return c.Message
			}
		}
	case *unstructured.Unstructured:
		conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		for _, one := range conditions {
			c, _ := one.(map[string]any)
			if c["type"] == string(appsv1.DeploymentReplicaFailure) && c["status"] == string(corev1.ConditionTrue) {
				message, _ := c["message"].(string)
				return message
			}
		}
	}
	return ""
}
