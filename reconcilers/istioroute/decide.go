package istioroute

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/meshes"
	"switchyard.dev/reconcilers/meshes/istio"
	"switchyard.dev/reconcilers/meshes/istioadapter"
)

// Reasons of conditions of an IstioRoute, beside those of packages meshes, istio and istioadapter.
const (
	// ReasonIstioDisabled: the operator changes no VirtualServices.
	ReasonIstioDisabled = "IstioDisabled"
	// ReasonVirtualServiceFailed: one cannot be written.
	ReasonVirtualServiceFailed = "VirtualServiceFailed"
	// ReasonRoutesLeft: the operator changes no VirtualServices any more, and some may have routes.
	ReasonRoutesLeft = "RoutesLeftBehind"
)

// words are those of an IstioRoute.
var words = meshes.Words{
	Kind: crdv1.KindIstioRoute,
	Off:  ReasonIstioDisabled, Why: "istio.enabled is false. Set it to true in the values of the chart, or delete the object.",
	One: "VirtualService", All: "VirtualServices",
	Matched: crdv1.ConditionVirtualServicesMatched, Failed: ReasonVirtualServiceFailed, There: istio.StatusApplied,
}

// Conclude returns a copy of the IstioRoute with its status; the object itself if the status does not
// change. known is nil if Istio is off. VirtualServices that may have routes and can no longer be read
// stay in the status. now is the transition time of conditions that change.
func Conclude(o *crdv1.IstioRoute, known *istioadapter.Report, now metav1.Time) *crdv1.IstioRoute {
	left := istioadapter.LeftIn(o.Status.MatchedVirtualServices)
	unknown := len(left) > 0 && (known == nil || istioadapter.Unreadable(*known))
	if unknown && known != nil {
		known = new(*known) // The caller's stays as it is.
		known.Trouble = new(condition.False(known.Trouble.Reason, fmt.Sprintf(
			"%s Until then routes for the key remain in VirtualServices: %s.", known.Trouble.Message, named(left))))
	}
	all, stands := meshes.Conditions(words, o, known, match)
	if all == nil {
		return o
	}
	if unknown && known == nil {
		all = meshes.Every(o, condition.Unknown(ReasonRoutesLeft, fmt.Sprintf(
			"Routes for routing key %q remain in VirtualServices because istio.enabled is false: %s. Set it to true until the sandbox is deleted, %s.",
			o.Spec.RoutingKey, named(left), istioadapter.ByHand)))
	}
	after := o.DeepCopy()
	after.Status.ObservedGeneration, after.Status.MatchedVirtualServices = o.Generation, nil
	switch {
	case unknown && (stands || known == nil):
		after.Status.MatchedVirtualServices = left
	case stands:
		after.Status.MatchedVirtualServices = known.Matches[:min(len(known.Matches), meshes.MostListed)]
	}
	condition.Write(after, all, now)
	return after
}

// match returns a VirtualService in words.
func match(m crdv1.VirtualServiceMatch) meshes.Match {
	return meshes.Match{Kind: words.One, Name: m.Namespace + "/" + m.Name, Status: m.Status, Message: m.Message}
}

// named names VirtualServices.
func named(all []crdv1.VirtualServiceMatch) string {
	return words.Names(lists.Map(all, match))
}
