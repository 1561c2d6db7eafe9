package virtualworkload

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/finding"
)

// Decision is what was found out.
type Decision struct {
	// Findings are those for Accepted, BaselineFound and SidecarsReady.
	Findings finding.Findings
	// Seen is what is known of the baseline; nil when it was never seen.
	Seen *crdv1.WorkloadBaseline
	// Services are those of the baseline with the ports that lead to it, sorted by
	// name; as they were last seen when it is not there now, or nobody knows what its pods
	// are made from.
	Services []crdv1.ServiceMapping
}

// Decide finds out what there is to say of a virtual workload that is not being
// deleted.
func Decide(in Input) Decision {
	accepted := accept(in.Workload)
	d := Decision{Findings: finding.Findings{
		crdv1.ConditionAccepted:      accepted,
		crdv1.ConditionBaselineFound: found(in, accepted),
	}}
	if in.Baseline != nil {
		d.Seen = &crdv1.WorkloadBaseline{WorkloadID: string(in.Baseline.UID), Generation: in.Baseline.Generation}
	}
	if in.Baseline != nil && in.Baseline.Problem == "" {
		d.Services = services(in.Baseline.Template, in.Services)
	} else if s := in.Workload.Status; accepted.IsYes() && s.ObservedGeneration == in.Workload.Generation {
		// What was seen is of the baseline that the spec names, and of no other.
		d.lastSeen(s)
	}
	d.Findings[baseline.ConditionSidecarsReady] = baseline.Sidecars(in.Baseline, in.Pods, d.Services, in.Injected)
	return d
}

// lastSeen takes from a status what it tells of the baseline, where nothing newer is
// known.
func (d *Decision) lastSeen(s crdv1.VirtualWorkloadStatus) {
	if d.Seen == nil {
		d.Seen = s.Baseline.DeepCopy()
	}
	if s.RoutingConfig == nil {
		return
	}
	d.Services = s.RoutingConfig.DeepCopy().Services
	for i := range d.Services {
		d.Services[i].To = "" // Nothing was made, whatever somebody has written.
	}
}

// accept says whether the spec names something that a member can stand before.
func accept(w *crdv1.VirtualWorkload) finding.Finding {
	if f := baseline.Accept("spec.baseline", w.Spec.Baseline, w.Namespace); !f.IsYes() {
		return f
	}
	return finding.Yes("Accepted", "The spec is right.")
}

// found says whether the baseline is there.
func found(in Input, accepted finding.Finding) finding.Finding {
	ref, _ := in.Workload.BaselineRef()
	switch {
	case !accepted.IsYes():
		return finding.Open(accepted.Reason, "The spec is not accepted, so the baseline was not looked for.")
	case in.Baseline == nil:
		return finding.No(baseline.ReasonBaselineNotFound, fmt.Sprintf(
			"%s does not exist: create it, or name another one", baseline.Describe(ref)))
	case in.Baseline.Problem != "":
		return finding.No(baseline.ReasonTemplateUnknown, in.Baseline.Problem)
	}
	return finding.Yes("BaselineFound", baseline.Describe(ref)+" is there.")
}

// services gives the Services that lead to pods made from the template, with the TCP
// ports that do, sorted.
func services(template *corev1.PodTemplateSpec, neighbours []corev1.Service) []crdv1.ServiceMapping {
	var out []crdv1.ServiceMapping
	for i := range neighbours {
		s := &neighbours[i]
		if !baseline.Selects(s, template) {
			continue
		}
		m := crdv1.ServiceMapping{From: s.Name}
		for _, p := range s.Spec.Ports {
			target, ok := baseline.ListensOn(template.Spec, p)
			switch {
			case !ok:
				m.MissingPorts = append(m.MissingPorts, p.Port)
			case baseline.ProtocolOf(p.Protocol) == corev1.ProtocolTCP:
				m.Ports = append(m.Ports, crdv1.MappedPort{Port: p.Port, TargetPort: target})
			}
		}
		slices.Sort(m.MissingPorts)
		slices.SortFunc(m.Ports, func(a, b crdv1.MappedPort) int { return int(a.Port) - int(b.Port) })
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b crdv1.ServiceMapping) int { return strings.Compare(a.From, b.From) })
	return out
}
