package adapter

import (
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/condition"
)

// Target is what an IstioRoute asks for: that requests with a routing key for a Service of a
// baseline reach a sandbox.
type Target struct{ Key, Namespace, Service string }

// TargetOf returns what an IstioRoute asks for.
func TargetOf(r *crdv1.IstioRoute) Target {
	return Target{r.Spec.RoutingKey, r.Spec.Managed.Namespace, r.Spec.Managed.TargetService}
}

// Statuses of a VirtualService that routes to a Service.
const (
	// StatusApplied: it has the routes.
	StatusApplied = "Applied"
	// StatusIgnored: its owner asks us to leave it alone, so it has none.
	StatusIgnored = "Ignored"
	// StatusPending: it is being written.
	StatusPending = "Pending"
	// StatusFailed: it lacks routes, and the message says why.
	StatusFailed = "Failed"
)

// Report is what is known of a Target. The zero Report: nothing yet.
type Report struct {
	// Trouble is why nothing can be known or done about any VirtualService, such as a right
	// that is missing; nil when there is no such reason.
	Trouble *condition.Condition
	// Looked is true once all VirtualServices were looked at, with the Target on the log.
	Looked bool
	// Matches are the VirtualServices that route to the Service, sorted.
	Matches []crdv1.VirtualServiceMatch
}
