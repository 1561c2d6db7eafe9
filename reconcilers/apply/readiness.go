package apply

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// logTurn logs a status update that changes the status or the reason of Ready. Other updates are too
// frequent to log.
func logTurn(ctx context.Context, before, o client.Object) {
	if c := turned(before, o); c != nil {
		log.FromContext(ctx).Info("readiness changed",
			"object", Describe(o), "ready", c.Status, "reason", c.Reason, "message", c.Message)
	}
}

// turned returns the condition Ready of o when its status or reason is another
// than that of before, else nil.
func turned(before, o client.Object) *crdv1.StatusCondition {
	then, now := readiness(before), readiness(o)
	if now == nil || then != nil && then.Status == now.Status && then.Reason == now.Reason {
		return nil
	}
	return now
}

// readiness returns the condition Ready; nil when there is none.
func readiness(o client.Object) *crdv1.StatusCondition {
	c, ok := o.(crdv1.Conditioned)
	if !ok {
		return nil
	}
	return crdv1.FindCondition(*c.StatusConditions(), crdv1.ConditionReady)
}
