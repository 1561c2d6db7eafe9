package sandbox

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/condition"
)

// attached returns whether the middlewares of all members are applied.
func (m Made) attached() condition.Condition {
	if m.Unwatched != nil {
		return condition.False(m.Unwatched.Reason, m.Unwatched.Message)
	}
	for _, c := range m.Watch {
		if c == nil {
			return condition.Unknown(crdv1.ReasonPending, "A TrafficCapture is not written yet; retrying.")
		}
		ready := crdv1.FindCondition(c.Status.Conditions, crdv1.ConditionReady)
		if ready == nil {
			return condition.Unknown(crdv1.ReasonPending, fmt.Sprintf("TrafficCapture %s/%s is not reconciled yet.", c.Namespace, c.Name))
		}
		if ready.Status != string(metav1.ConditionTrue) {
			return condition.False(ready.Reason, ready.Message)
		}
	}
	return condition.True("Attached", "")
}
