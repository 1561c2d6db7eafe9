package istioadapter

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/meshes"
	"switchyard.dev/reconcilers/meshes/istio"
	"switchyard.dev/reconcilers/meshes/istio/names"
	"switchyard.dev/reconcilers/meshes/istioadapter/rewrites"
)

// Target identifies the Service and the routing key of an IstioRoute.
type Target = meshes.Target

// Statuses of a VirtualService that routes to a Service, beside those of package istio.
const (
	StatusPending = meshes.StatusPending
	StatusFailed  = meshes.StatusFailed
)

// Report is the report of a Target. Its matches are the VirtualServices that route to the Service.
type Report = meshes.Report[crdv1.VirtualServiceMatch]

// reportOf returns the report for requests with a key. The match of a VirtualService that is out of
// date and lacks routes for this key has the progress of its write.
func reportOf(r istio.Report, key string, objects map[types.NamespacedName]*kept) Report {
	out := Report{Matches: r.Matched}
	for i := range out.Matches {
		m := &out.Matches[i]
		k := objects[types.NamespacedName{Namespace: m.Namespace, Name: m.Name}]
		if k.behind() && (m.Status == istio.StatusApplied || m.Status == istio.StatusPartial) &&
			slices.ContainsFunc(k.differ, func(name string) bool { return names.NamedFor(name, key) }) {
			m.Status, m.Message = k.status, k.message
		}
		if note := rewrites.Note(k.have); note != "" && !slices.Contains(out.Notes, note) {
			out.Notes = append(out.Notes, note)
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
