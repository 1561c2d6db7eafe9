package gatewayadapter

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"switchyard.dev/reconcilers/meshes"
)

// ReasonNotAccepted: an implementation does not take a derived route as it takes the original.
const ReasonNotAccepted = "NotAccepted"

// accepted returns the status and message of a derived route from the conditions that implementations
// set: meshes.StatusPending while one has not set a condition that it set to True on the original,
// ReasonNotAccepted if it is False on the derived route, and empty if all agree. Linkerd sets no
// observedGeneration. Conditions that are missing or not True on the original are not compared.
func accepted(baseline, derived *route) (status, message string) {
	for _, said := range baseline.statuses {
		for _, t := range []string{string(gatewayv1.RouteConditionAccepted), string(gatewayv1.RouteConditionResolvedRefs)} {
			if !meta.IsStatusConditionTrue(said.Conditions, t) {
				continue
			}
			c := conditionOf(derived, said, t)
			switch {
			case c == nil || c.ObservedGeneration != 0 && c.ObservedGeneration < derived.meta.Generation || c.Status == metav1.ConditionUnknown:
				status = meshes.StatusPending
			case c.Status == metav1.ConditionFalse:
				return ReasonNotAccepted, fmt.Sprintf("%s reports that %s is not %s, though %s is: %s (%s). Requests with the key fail or reach the baseline.",
					said.ControllerName, derived.object, t, baseline.object, c.Message, c.Reason)
			}
		}
	}
	return status, ""
}

// conditionOf returns a condition of a route for the parent and the implementation of which
// another route speaks; nil when it has none.
func conditionOf(r *route, like gatewayv1.RouteParentStatus, t string) *metav1.Condition {
	for _, said := range r.statuses {
		if said.ControllerName == like.ControllerName && reflect.DeepEqual(said.ParentRef, like.ParentRef) {
			return meta.FindStatusCondition(said.Conditions, t)
		}
	}
	return nil
}
