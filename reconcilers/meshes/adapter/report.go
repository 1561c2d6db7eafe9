package adapter

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/meshes/istio"
)

// Target is what an IstioRoute asks for: that requests with a routing key for a Service of a
// baseline reach a sandbox.
type Target struct{ Key, Namespace, Service string }

// TargetOf returns what an IstioRoute asks for.
func TargetOf(r *crdv1.IstioRoute) Target {
	return Target{r.Spec.RoutingKey, r.Spec.Managed.Namespace, r.Spec.Managed.TargetService}
}

// Statuses of a VirtualService that routes to a Service, beside those of package istio.
const (
	// StatusPending: it is being written.
	StatusPending = "Pending"
	// StatusFailed: it cannot be written, and the message says why.
	StatusFailed = "Failed"
)

// Report is what is known of a Target. The zero Report: nothing yet.
type Report struct {
	// Starting is true before this process has looked for the first time.
	Starting bool
	// Looked is true once all VirtualServices were looked at, with the Target on the log.
	Looked bool
	// Trouble is why nothing can be known or done about any VirtualService, such as a right
	// that is missing; nil when there is no such reason.
	Trouble *condition.Condition
	// Matches are the VirtualServices that route to the Service, sorted.
	Matches []crdv1.VirtualServiceMatch
	// Lost is why requests with the key reach the baseline; nil when they do not.
	Lost *condition.Condition
	// Notes are what people should know beside that, such as who does not see a VirtualService.
	Notes []string
}

// reportOf returns what is said of requests with a key. One of the VirtualServices that is not as
// it should be says how far it is, where it lacks routes for this key.
func reportOf(r istio.Report, key string, objects map[types.NamespacedName]*kept) Report {
	out := Report{Looked: true, Matches: r.Matched}
	for i := range out.Matches {
		m := &out.Matches[i]
		k := objects[types.NamespacedName{Namespace: m.Namespace, Name: m.Name}]
		if k.behind() && (m.Status == istio.StatusApplied || m.Status == istio.StatusPartial) &&
			slices.ContainsFunc(k.differ, func(name string) bool { return istio.NamedFor(name, key) }) {
			m.Status, m.Message = k.status, k.message
		}
	}
	for _, f := range r.Findings {
		switch {
		case !f.Lost:
			out.Notes = append(out.Notes, f.Message)
		case out.Lost == nil:
			lost := condition.False(f.Reason, f.Message)
			out.Lost = &lost
		}
	}
	return out
}
