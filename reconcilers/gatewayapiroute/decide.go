package gatewayapiroute

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/meshes"
	"switchyard.dev/reconcilers/meshes/gatewayadapter"
	"switchyard.dev/reconcilers/meshes/gatewayapi"
)

// Reasons of conditions of a GatewayAPIRoute, beside those of packages meshes,
// gatewayapi and gatewayadapter.
const (
	// ReasonGatewayAPIDisabled: the operator makes no routes of the Gateway API.
	ReasonGatewayAPIDisabled = "GatewayAPIDisabled"
	// ReasonRouteFailed: one cannot be written.
	ReasonRouteFailed = "RouteFailed"
)

// words are those of a GatewayAPIRoute.
var words = meshes.Words{
	Kind: crdv1.KindGatewayAPIRoute,
	Off:  ReasonGatewayAPIDisabled,
	Why: "neither istio.gatewayAPI.enabled nor linkerd.gatewayAPI.enabled is true. " +
		"Set one of them to true in the values of the chart, or delete the object, which also deletes the routes derived for it.",
	One: "HTTPRoute or GRPCRoute", All: "HTTPRoutes and GRPCRoutes",
	Matched: crdv1.ConditionRoutesMatched, Failed: ReasonRouteFailed, There: gatewayapi.StatusDerived,
}

// Conclude returns a copy of the GatewayAPIRoute with its status; the object itself if the status does
// not change. known is nil if the Gateway API is off. now is the transition time of conditions that
// change.
func Conclude(o *crdv1.GatewayAPIRoute, known *gatewayadapter.Report, now metav1.Time) *crdv1.GatewayAPIRoute {
	all, stands := meshes.Conditions(words, o, known, func(m crdv1.MatchedObject) meshes.Match {
		return meshes.Match{Kind: m.Baseline.Kind, Name: m.Baseline.Namespace + "/" + m.Baseline.Name, Status: m.Status, Message: m.Message}
	})
	if all == nil {
		return o
	}
	after := o.DeepCopy()
	after.Status.ObservedGeneration, after.Status.MatchedObjects = o.Generation, nil
	if stands {
		after.Status.MatchedObjects = known.Matches[:min(len(known.Matches), meshes.MostListed)]
	}
	condition.Write(after, all, now)
	return after
}
