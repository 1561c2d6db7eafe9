package istioroute

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/meshes/adapter"
	"switchyard.dev/reconcilers/meshes/istio"
)

// Reasons of conditions of an IstioRoute, beside those of packages istio and adapter.
const (
	// ReasonIstioDisabled: the operator changes no VirtualServices.
	ReasonIstioDisabled = "IstioDisabled"
	// ReasonNoRoutingConfig: nobody asks for the routes on the routing log.
	ReasonNoRoutingConfig = "NoRoutingConfig"
	// ReasonVirtualServiceFailed: one cannot be written.
	ReasonVirtualServiceFailed = "VirtualServiceFailed"
	// ReasonRoutesLeft: the operator changes no VirtualServices any more, and some may have routes.
	ReasonRoutesLeft = "RoutesLeftBehind"
	// ReasonNoRoutes: those that lead to the Service have no route for the key.
	ReasonNoRoutes = "NoRoutes"
)

// Conclude returns a copy of the IstioRoute with its status. known is nil where nobody writes
// VirtualServices. Those that may have routes, and cannot be looked at any more, stay in it. It returns the object itself where there is nothing to say: it is being
// deleted, or another program writes its status. now is taken as the time of conditions that
// changed.
func Conclude(o *crdv1.IstioRoute, known *adapter.Report, now metav1.Time) *crdv1.IstioRoute {
	if o.DeletionTimestamp != nil || known == nil && othersWriteStatus(o) {
		return o
	}
	if known != nil && known.Starting && known.Trouble == nil && o.Status.ObservedGeneration == o.Generation {
		return o // What the process before this one has found stays until this one knows more.
	}
	after := o.DeepCopy()
	after.Status.ObservedGeneration = o.Generation
	left := adapter.LeftIn(o.Status.MatchedVirtualServices)
	after.Status.MatchedVirtualServices = nil
	all := condition.Set{}
	switch {
	case known == nil && len(left) > 0:
		after.Status.MatchedVirtualServices = left
		all = every(condition.Unknown(ReasonRoutesLeft, fmt.Sprintf(
			"istio.enabled is false, so nobody takes routes for routing key %q out of VirtualServices: %s. Set it to true until the sandbox is gone, %s.",
			o.Spec.RoutingKey, names(left, ""), adapter.ByHand)))
	case known == nil:
		all = every(condition.Unknown(ReasonIstioDisabled, fmt.Sprintf(
			"Nothing acts on IstioRoute %s: istio.enabled is false. Set it to true in the values of the chart, or delete the object.", o.Name)))
	case !madeByRoutingConfig(o):
		all = every(condition.False(ReasonNoRoutingConfig, fmt.Sprintf(
			"IstioRoute %s changes nothing, since no RoutingConfig has made it. Make a SignadotSandbox or a RoutingConfig for routing key %q.", o.Name, o.Spec.RoutingKey)))
	default:
		after.Status.MatchedVirtualServices = known.Matches[:min(len(known.Matches), mostMatched)]
		if known.Unreadable() && len(left) > 0 {
			after.Status.MatchedVirtualServices = left
			known = new(*known) // The caller's stays as it is.
			known.Trouble = new(condition.False(known.Trouble.Reason, fmt.Sprintf(
				"%s Meanwhile nobody takes routes out of VirtualServices: %s.", known.Trouble.Message, names(left, ""))))
		}
		all[crdv1.ConditionAccepted] = condition.True("Accepted", "RoutingConfig "+metav1.GetControllerOfNoCopy(o).Name+" asks for it.")
		all[crdv1.ConditionVirtualServicesMatched] = matched(o, *known)
		all[crdv1.ConditionRoutesApplied] = applied(o, *known)
		all[crdv1.ConditionReady] = all.Ready(all[crdv1.ConditionRoutesApplied].Message,
			crdv1.ConditionAccepted, crdv1.ConditionVirtualServicesMatched, crdv1.ConditionRoutesApplied)
	}
	condition.Write(after, all, now)
	return after
}

// every returns all conditions of an IstioRoute, each as given.
func every(c condition.Condition) condition.Set {
	all := condition.Set{}
	for _, t := range (*crdv1.IstioRoute)(nil).ConditionTypes() {
		all[t] = c
	}
	return all
}

// othersWriteStatus reports whether a program other than this one has written to the status.
func othersWriteStatus(o *crdv1.IstioRoute) bool {
	return slices.ContainsFunc(o.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
		return e.Subresource == "status" && e.Manager != crdv1.FieldManager
	})
}

// madeByRoutingConfig reports whether a RoutingConfig is the controller of the object.
func madeByRoutingConfig(o *crdv1.IstioRoute) bool {
	ref := metav1.GetControllerOfNoCopy(o)
	return ref != nil && ref.APIVersion == crdv1.APIVersion && ref.Kind == crdv1.KindRoutingConfig
}

// matched reports whether a VirtualService routes to the Service.
func matched(o *crdv1.IstioRoute, r adapter.Report) condition.Condition {
	switch {
	case r.Trouble != nil:
		return *r.Trouble
	case !r.Looked:
		return pending(o)
	case len(r.Matches) == 0 && r.Lost != nil:
		return *r.Lost
	}
	var beyond string
	if more := len(r.Matches) - mostMatched; more > 0 {
		beyond = fmt.Sprintf(" The status lists the first %d and leaves out %d.", mostMatched, more)
	}
	return condition.True("VirtualServicesMatched", fmt.Sprintf("VirtualServices that route to Service %s/%s: %s.%s",
		o.Spec.Managed.Namespace, o.Spec.Managed.TargetService, names(r.Matches, ""), beyond))
}

// applied reports whether every VirtualService that routes to the Service has the routes, and
// there is one.
func applied(o *crdv1.IstioRoute, r adapter.Report) condition.Condition {
	m := o.Spec.Managed
	switch failed := first(r, adapter.StatusFailed); {
	case r.Trouble != nil:
		return *r.Trouble
	case !r.Looked:
		return pending(o)
	case failed != nil:
		return condition.False(ReasonVirtualServiceFailed, failed.Message)
	case r.Lost != nil:
		return *r.Lost
	case first(r, adapter.StatusPending) != nil:
		return pending(o)
	case first(r, istio.StatusApplied) == nil:
		return condition.False(ReasonNoRoutes, fmt.Sprintf("No VirtualService has a route for routing key %q to Service %s/%s, so requests with it reach the baseline.%s",
			o.Spec.RoutingKey, m.Namespace, m.TargetService, why(r)))
	}
	return condition.True("RoutesApplied", fmt.Sprintf("Requests with routing key %q for Service %s/%s are routed to the sandbox by VirtualServices: %s.%s",
		o.Spec.RoutingKey, m.Namespace, m.TargetService, names(r.Matches, istio.StatusApplied), notes(r)))
}

// notes returns what people should know though the routes are there, to follow a sentence.
func notes(r adapter.Report) string {
	var out strings.Builder
	for i, note := range r.Notes {
		if i == mostNamed {
			fmt.Fprintf(&out, " And %d more notes.", len(r.Notes)-i)
			break
		}
		out.WriteString(" " + note)
	}
	return out.String()
}

// why returns what is said of the first VirtualService, to follow a sentence.
func why(r adapter.Report) string {
	if len(r.Matches) == 0 {
		return ""
	}
	return fmt.Sprintf(" VirtualService %s/%s: %s", r.Matches[0].Namespace, r.Matches[0].Name, r.Matches[0].Message)
}

// first returns the first VirtualService with a status; nil when there is none.
func first(r adapter.Report, status string) *crdv1.VirtualServiceMatch {
	i := slices.IndexFunc(r.Matches, func(v crdv1.VirtualServiceMatch) bool { return v.Status == status })
	if i < 0 {
		return nil
	}
	return &r.Matches[i]
}

// pending returns the condition that the VirtualServices are being looked at.
func pending(o *crdv1.IstioRoute) condition.Condition {
	return condition.Unknown(crdv1.ReasonPending, fmt.Sprintf(
		"The VirtualServices that route to Service %s/%s are getting their routes.", o.Spec.Managed.Namespace, o.Spec.Managed.TargetService))
}

// mostMatched is how many VirtualServices a status lists. Conditions are about all.
const mostMatched = 32

// mostNamed is how many VirtualServices a message names.
const mostNamed = 3

// names names the VirtualServices with a status; all for none.
func names(all []crdv1.VirtualServiceMatch, status string) string {
	var out []string
	for _, v := range all {
		if status == "" || v.Status == status {
			out = append(out, v.Namespace+"/"+v.Name)
		}
	}
	if more := len(out) - mostNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(out[:mostNamed], ", "), more)
	}
	return strings.Join(out, ", ")
}
