package baseline

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestRefusedPodsAreReadAndWatchedOfEachKind(t *testing.T) {
	deployment := func(status corev1.ConditionStatus, message string) client.Object {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}
		d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Message: "new"},
			{Type: appsv1.DeploymentReplicaFailure, Status: status, Message: message}}
		return d
	}
	rollout := func(status corev1.ConditionStatus, message string) client.Object {
		u := NewRollout()
		u.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Progressing", "status": "True", "message": "new"},
			map[string]any{"type": "ReplicaFailure", "status": string(status), "message": message}}}
		KeepProgress(u)
		return u
	}
	for kind, of := range map[string]func(corev1.ConditionStatus, string) client.Object{"Deployment": deployment, "Rollout": rollout} {
		refused, other, accepted := of(corev1.ConditionTrue, "exceeded quota"), of(corev1.ConditionTrue, "forbidden"), of(corev1.ConditionFalse, "exceeded quota")
		if got := []string{PodsRefused(refused), PodsRefused(accepted), PodsRefused(&unstructured.Unstructured{})}; got[0] != "exceeded quota" || got[1] != "" || got[2] != "" {
			t.Errorf("%s: %q", kind, got)
		}
		if !workloadChanged(accepted, refused) || !workloadChanged(refused, accepted) || !workloadChanged(refused, other) || workloadChanged(refused, refused) {
			t.Errorf("%s: members are notified when the refusal changes, and only then", kind)
		}
	}
}
