package externalworkload

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/member"
)

// ReasonNoBaseline is the reason of BaselineFound and SidecarsReady of an external workload that replaces
// no workload.
const ReasonNoBaseline = baseline.ReasonNoBaseline

// Decision has the desired objects and conditions of an external workload.
type Decision struct {
	// Conditions are those for Accepted, BaselineFound and TunnelConnected.
	Conditions condition.Set
	// Tunnel is where requests go.
	Tunnel Tunnel
	// Collect: the tunnel is forgotten, and its info cleared.
	Collect bool
	// Delete is set if the external workload itself is to be deleted; nothing else is done then.
	Delete bool
	// Services are the Services of the baseline with the Services that replace them; the entry without
	// From is the Service of the tunnel itself.
	Services []member.Mapping
	// Beside are Services to apply that no proxy of the baseline uses: the second ones of captures, or the first ones
	// while they are replaced. From is their name.
	Beside []member.Mapping
	// Standing are Services that stay unchanged, by Mapping.From, while their desired form cannot be
	// determined (member.AsStated).
	Standing map[string]*corev1.Service
	// Unled are ports that the spec diverts but no Service targets.
	Unled []int32
	// Slices and Endpoints forward from the Services into the tunnel.
	Slices    []*discoveryv1.EndpointSlice
	Endpoints []*oldEndpoints

	// Surplus are Services of the external workload that are no longer wanted; they are deleted once the
	// log does not name them.
	Surplus []*corev1.Service
	// SurplusSlices and SurplusEndpoints are deleted at once: their address may belong to another pod by
	// now.
	SurplusSlices    []*discoveryv1.EndpointSlice
	SurplusEndpoints []*oldEndpoints
}

// Decide returns the decision about an external workload that is not being deleted.
func Decide(in Input) Decision {
	var d Decision
	d.Tunnel, d.Collect = tunnelOf(in)
	if d.Collect && metav1.GetControllerOfNoCopy(in.Workload) == nil {
		return Decision{Delete: true}
	}
	m := mappingOf(in.Workload.Spec, in.takesRequests())
	d.Conditions = condition.Set{
		crdv1.ConditionAccepted:        m.accepted,
		crdv1.ConditionTunnelConnected: d.Tunnel.Connected,
	}
	switch f := acceptBaseline(in.Workload); {
	case !f.IsTrue():
		d.Conditions[crdv1.ConditionAccepted] = f
		d.Conditions[crdv1.ConditionBaselineFound] = condition.Unknown(f.Reason, "The spec is not accepted, so the baseline was not looked for.")
		d.asItIs(in)
	case !in.takesRequests():
		d.Conditions[crdv1.ConditionBaselineFound] = condition.True(ReasonNoBaseline, "It has no baseline, so no request is diverted.")
		d.Services = ofTunnel(in, m)
	default:
		if d.Conditions[crdv1.ConditionBaselineFound] = in.Found(in.Workload); in.Known() {
			d.Services, d.Unled = ofBaseline(in, m)
		} else {
			d.asItIs(in)
		}
	}
	d.endpoints(in, m)
	d.capture(in)
	if d.Standing == nil {
		d.Surplus = member.SurplusServices(in.Services, in.Workload.UID, slices.Concat(d.Services, d.Beside))
	}
	d.SurplusSlices = member.Surplus(in.Slices, in.Workload.UID, d.Slices)
	return d
}

// acceptBaseline returns whether the referenced workload can be a baseline.
func acceptBaseline(w *crdv1.SignadotExternalWorkload) condition.Condition {
	if _, ok := w.BaselineRef(); !ok {
		return condition.True(ReasonNoBaseline, "There is no baseline.")
	}
	return baseline.Accept("spec.baseline", w.Spec.Baseline.ObjectRef, w.Namespace)
}

// baselineName names the baseline in messages.
func (in Input) baselineName() string {
	ref, ok := in.Workload.BaselineRef()
	if !ok {
		return "no workload"
	}
	return baseline.Describe(ref)
}

// asItIs keeps the Services that the status lists. They still forward to the current end of the tunnel.
// Services of another baseline are deleted: the spec no longer diverts its requests.
func (d *Decision) asItIs(in Input) {
	if !in.reached() {
		return
	}
	d.Services, d.Standing = member.AsStated(in.Workload.Status.RoutingConfig, in.Workload, in.Services)
	firsts(in, d.Services, d.Standing)
	for i := range d.Services {
		m := &d.Services[i]
		m.Missing = slices.DeleteFunc(m.Missing, func(port int32) bool {
			// A port in both lists was diverted; whether the tunnel carries it is determined again.
			return slices.ContainsFunc(m.Ports, func(p crdv1.MappedPort) bool { return p.Port == port })
		})
	}
}
