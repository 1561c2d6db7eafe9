package meshes

import (
	"reflect"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/condition"
)

// Target identifies the requests that a mesh routes to a sandbox: those with routing key Key for a
// Service of the baseline.
type Target struct{ Key, Namespace, Service string }

// TargetOf returns the Target of an IstioRoute or a GatewayAPIRoute.
func TargetOf(r crdv1.MeshRoute) Target {
	asked := r.Asked()
	return Target{asked.RoutingKey, asked.Managed.Namespace, asked.Managed.TargetService}
}

// Statuses of a user's object that routes to a Service, in addition to those of each mesh.
const (
	// StatusPending: the operator's routes for it are being written.
	StatusPending = "Pending"
	// StatusFailed: the routes cannot be written; the message has the cause.
	StatusFailed = "Failed"
)

// Report is the state of a Target in a mesh. M is a user's object that routes to its Service. In the
// zero Report nothing is known yet.
type Report[M any] struct {
	// Starting is true until this process has completed its first sync.
	Starting bool
	// Synced is true once a sync has read all relevant objects with the Target on the routing log.
	Synced bool
	// Mappings are the port mappings of the Target on the log at that sync, sorted by port.
	Mappings []crdv1.IstioPortMapping
	// Trouble is a failure that affects the mesh as a whole, such as a missing permission; nil if
	// there is none.
	Trouble *condition.Condition
	// Matches are the users' objects that route to the Service, sorted.
	Matches []M
	// Lost is why requests with the key reach the baseline or fail; nil if they reach the sandbox.
	Lost *condition.Condition
	// Notes are sentences for users about limitations that do not affect the condition.
	Notes []string
}

// Changed returns the Targets with a Report that differs between before and after.
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
