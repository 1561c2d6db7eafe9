package virtualworkload

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/member"
)

// Decision is the result of Decide.
type Decision struct {
	// Conditions are those for Accepted, BaselineFound and SidecarsReady.
	Conditions condition.Set
	// Seen is the last known state of the baseline; nil if its pod template was never known.
	Seen *crdv1.WorkloadBaseline
	// Services are the Services of the baseline with the ports that target it, sorted by name; the last
	// known ones if the baseline is missing or its pod template is unknown.
	Services []crdv1.ServiceMapping
	// Seconds are the second Services of captures, and Slices their endpoints. Redirected reports whether requests are sent
	// to them, and Returning whether they come back to sidecars. Pairs are those that have an address, for the fact.
	Seconds               []member.Mapping
	Slices                []*discoveryv1.EndpointSlice
	Redirected, Returning bool
	Pairs                 []*factv1.ServicePair
	// Surplus and SurplusSlices are those that are no longer wanted: deleted once the log does not name the Services.
	Surplus       []*corev1.Service
	SurplusSlices []*discoveryv1.EndpointSlice
	// Meshed is true when every pod of the baseline has a ready sidecar.
	Meshed bool
}

// Decide returns the decision about a virtual workload that is not being deleted.
func Decide(in Input) Decision {
	accepted := accept(in.Workload)
	d := Decision{Conditions: condition.Set{
		crdv1.ConditionAccepted:      accepted,
		crdv1.ConditionBaselineFound: found(in, accepted),
	}}
	switch s := in.Workload.Status; {
	case in.Known():
		d.Seen = in.Seen.Status(nil)
		d.Services = services(in.Forms(), in.Services)
	case accepted.IsTrue() && in.isCurrent():
		d.Seen = in.Seen.Status(s.Baseline.DeepCopy())
		d.Services = lastSeen(s.RoutingConfig)
	}
	d.Conditions[baseline.ConditionSidecarsReady], d.Meshed = in.Sidecars(d.Services)
	d.capture(in)
	return d
}

// lastSeen takes from a status the Services of the baseline, where nothing newer is known.
func lastSeen(info *crdv1.WorkloadRoutingInfo) []crdv1.ServiceMapping {
	out := info.DeepCopy().Services
	for i := range out {
		out[i].To = "" // No request is recorded while the pods are unknown.
	}
	return out
}

// accept returns whether the spec names a valid baseline.
func accept(w *crdv1.VirtualWorkload) condition.Condition {
	if f := baseline.Accept("spec.baseline", w.Spec.Baseline, w.Namespace); !f.IsTrue() {
		return f
	}
	return condition.True("Accepted", "The spec is valid.")
}

// found returns whether the baseline exists.
func found(in Input, accepted condition.Condition) condition.Condition {
	if !accepted.IsTrue() {
		return condition.Unknown(accepted.Reason, "The spec is not accepted, so the baseline was not looked for.")
	}
	return in.Found(in.Workload)
}

// services returns the Services that select pods of any form of the baseline, with their TCP ports,
// sorted; a port that targets several container ports has an entry for each.
func services(live baseline.Forms, neighbours []corev1.Service) []crdv1.ServiceMapping {
	var out []crdv1.ServiceMapping
	for i := range neighbours {
		s := &neighbours[i]
		if !live.Selected(s) {
			continue
		}
		m := crdv1.ServiceMapping{From: s.Name}
		for _, p := range s.Spec.Ports {
			targets := live.ListenOn(p)
			if len(targets) == 0 {
				m.MissingPorts = append(m.MissingPorts, p.Port)
			}
			for _, target := range targets {
				if baseline.ProtocolOf(p.Protocol) == corev1.ProtocolTCP {
					m.Ports = append(m.Ports, crdv1.MappedPort{Port: p.Port, TargetPort: target})
				}
			}
		}
		slices.Sort(m.MissingPorts)
		slices.SortStableFunc(m.Ports, func(a, b crdv1.MappedPort) int { return int(a.Port) - int(b.Port) })
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b crdv1.ServiceMapping) int { return strings.Compare(a.From, b.From) })
	return out
}
