package meshes

import (
	"reflect"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/condition"
)

// Target is what a mesh is asked for: that requests with a routing key for a Service of a
// baseline reach a sandbox.
type Target struct{ Key, Namespace, Service string }

// TargetOf returns what an IstioRoute or a GatewayAPIRoute asks for.
func TargetOf(r crdv1.MeshRoute) Target {
	asked := r.Asked()
	return Target{asked.RoutingKey, asked.Managed.Namespace, asked.Managed.TargetService}
}

// Statuses of what an owner has made that leads to a Service, beside those of each mesh.
const (
	// StatusPending: our routes for it are being written.
	StatusPending = "Pending"
	// StatusFailed: they cannot be written, and the message says why.
	StatusFailed = "Failed"
)

// Report is what is known of a Target; M is something of an owner's that leads to its Service. The
// zero Report: nothing yet.
type Report[M any] struct {
	// Starting is true before this process has looked for the first time.
	Starting bool
	// Looked is true once all that counts was looked at, with the Target on the log.
	Looked bool
	// Mappings are what the log had then, sorted by port: where requests for the Service go.
	Mappings []crdv1.IstioPortMapping
	// Trouble is why nothing can be known or done about the mesh at all, such as a right that
	// is missing; nil when there is no such reason.
	Trouble *condition.Condition
	// Matches are what owners have made that leads to the Service, sorted.
	Matches []M
	// Lost is why requests with the key reach the baseline, or fail; nil when they do not.
	Lost *condition.Condition
	// Notes are what people should know beside that.
	Notes []string
}

// Changed returns the Targets of which something else was said before.
func Changed[M any](before, after map[Target]Report[M]) []Target {
	var all []Target
	for t, r := range after {
		if said, known := before[t]; !known || !reflect.DeepEqual(said, r) {
			all = append(all, t)
		}
	}
	for t := range before {
		if _, still := after[t]; !still {
			all = append(all, t)
		}
	}
	return all
}
