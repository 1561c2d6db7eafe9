package sandbox

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/finding"
	"switchyard.dev/reconcilers/forkedworkload/fork"
	"switchyard.dev/reconcilers/routingconfig"
)

// Made is what is there after the decision was acted on.
type Made struct {
	// Forks are the ForkedWorkloads, one for each of the decision, nil where there
	// is none of ours.
	Forks []*crdv1.ForkedWorkload
	// ForkRefusals are why ForkedWorkloads were not written, in the same places.
	ForkRefusals []*apply.Refusal
	// Config is the RoutingConfig; nil when there is none.
	Config *crdv1.RoutingConfig
	// ConfigRefusal is why the RoutingConfig was not written.
	ConfigRefusal *apply.Refusal
}

// Conclude gives the sandbox with its new status. now is taken as the time of
// conditions that changed.
func Conclude(in Input, d Decision, made Made, now metav1.Time) *crdv1.SignadotSandbox {
	s := in.Sandbox.DeepCopy()
	s.Status.ObservedGeneration = s.Generation
	list(s, in, d, made)

	findings := finding.Findings{
		crdv1.ConditionAccepted:       d.Findings[crdv1.ConditionAccepted],
		crdv1.ConditionResourcesReady: d.Findings[crdv1.ConditionResourcesReady],
		crdv1.ConditionWorkloadsReady: workloads(in, d, made),
		crdv1.ConditionRoutingReady:   routing(d, made),
	}
	if findings[crdv1.ConditionAccepted].IsYes() {
		findings[crdv1.ConditionAccepted] = acceptedByParts(d, made)
	}
	findings[crdv1.ConditionReady] = findings.Ready("All desired workloads are available.",
		crdv1.ConditionAccepted, crdv1.ConditionResourcesReady, crdv1.ConditionWorkloadsReady, crdv1.ConditionRoutingReady)
	finding.Write(s, findings, now)
	return s
}

// ConcludeDeletion gives the sandbox with the status of one that is being
// deleted.
func ConcludeDeletion(s *crdv1.SignadotSandbox, message string, now metav1.Time) *crdv1.SignadotSandbox {
	s = s.DeepCopy()
	gone := finding.No(ReasonDeleting, message)
	finding.Write(s, finding.Findings{crdv1.ConditionReady: gone, crdv1.ConditionRoutingReady: gone}, now)
	return s
}

// list fills counters and lists of the status.
func list(s *crdv1.SignadotSandbox, in Input, d Decision, made Made) {
	st := &s.Status
	st.CustomizedDeployments, st.ReadyDeployments = 0, 0
	st.ForkedWorkloads, st.ExternalWorkloads, st.VirtualWorkloads, st.ManagedResources = nil, nil, nil, nil
	for i, w := range current(in, d, made) {
		if w == nil {
			st.ForkedWorkloads = append(st.ForkedWorkloads, crdv1.SandboxForkStatus{ForkTarget: d.Forks[i].Spec.Baseline})
			continue
		}
		st.ForkedWorkloads = append(st.ForkedWorkloads, crdv1.SandboxForkStatus{
			ForkTarget: w.Spec.Baseline, Routing: routingStatus(w.Status.RoutingConfig),
		})
		if w.Status.Fork != nil {
			st.CustomizedDeployments++
		}
		if crdv1.IsTrue(w.Status.Conditions, crdv1.ConditionForkAvailable, w.Generation) {
			st.ReadyDeployments++
		}
	}
	for _, x := range s.Spec.ExternalWorkloads {
		st.ExternalWorkloads = append(st.ExternalWorkloads, crdv1.SandboxExternalWorkloadStatus{Name: x.Name})
	}
	for _, v := range s.Spec.VirtualWorkloads {
		st.VirtualWorkloads = append(st.VirtualWorkloads, crdv1.SandboxVirtualWorkloadStatus{Baseline: v.Baseline})
	}
	for _, r := range s.Spec.ManagedResources {
		st.ManagedResources = append(st.ManagedResources, crdv1.SandboxResourceStatus{Name: r.Name})
	}
}

// current gives the ForkedWorkloads as they are: those of the decision, or, when
// the decision was to hold, those that exist.
func current(in Input, d Decision, made Made) []*crdv1.ForkedWorkload {
	if !d.Hold {
		return made.Forks
	}
	var out []*crdv1.ForkedWorkload
	for i := range in.Forks {
		out = append(out, &in.Forks[i])
	}
	return out
}

// routingStatus says how the traffic of a fork is routed; nil when unknown.
func routingStatus(info *crdv1.WorkloadRoutingInfo) *crdv1.SandboxRoutingStatus {
	if info == nil {
		return nil
	}
	return &crdv1.SandboxRoutingStatus{DevMesh: &crdv1.DevMeshRouting{Enabled: info.DevMeshSidecarPresent}}
}

// acceptedByParts repeats what a part finds wrong with the spec.
func acceptedByParts(d Decision, made Made) finding.Finding {
	for i, w := range made.Forks {
		if r := made.ForkRefusals[i]; r != nil && r.Reason == apply.ReasonRejected {
			return finding.No(r.Reason, r.Message)
		}
		if w == nil {
			continue
		}
		c := crdv1.FindCondition(w.Status.Conditions, crdv1.ConditionAccepted)
		if c != nil && c.Status == string(metav1.ConditionFalse) && c.ObservedGeneration >= w.Generation {
			return finding.No(c.Reason, c.Message)
		}
	}
	return d.Findings[crdv1.ConditionAccepted]
}

// workloads says whether every member is ready.
func workloads(in Input, d Decision, made Made) finding.Finding {
	s := in.Sandbox.Spec
	switch {
	case len(s.ExternalWorkloads) > 0:
		return finding.No(fork.ReasonNotSupportedYet, fmt.Sprintf(
			"External workload %q is not routed: this version has no external workloads; remove spec.externalWorkloads", s.ExternalWorkloads[0].Name))
	case len(s.VirtualWorkloads) > 0:
		return finding.No(fork.ReasonNotSupportedYet, fmt.Sprintf(
			"Virtual workload %q is not routed: this version has no virtual workloads; remove spec.virtualWorkloads", s.VirtualWorkloads[0].Name))
	case d.Hold:
		return finding.Open(ReasonResourcesNotReady, "Forks are not made before all resources are.")
	case d.Config == nil:
		a := d.Findings[crdv1.ConditionAccepted]
		return finding.No(a.Reason, a.Message)
	}
	for _, t := range targets(in) {
		if !t.accepted.IsYes() {
			return t.accepted
		}
	}
	for i := range made.Forks {
		if f := forkReady(d.Forks[i], made.Forks[i], made.ForkRefusals[i]); !f.IsYes() {
			return f
		}
	}
	return finding.Yes("WorkloadsReady", fmt.Sprintf("Forks available: %d of %d.", len(made.Forks), len(made.Forks)))
}

// forkReady says whether one fork is ready.
func forkReady(want, have *crdv1.ForkedWorkload, refusal *apply.Refusal) finding.Finding {
	switch {
	case refusal != nil && refusal.Reason == apply.ReasonNamespaceNotFound:
		return finding.No(baseline.ReasonBaselineNotFound, fmt.Sprintf(
			"Deployment %s/%s does not exist, nor does its namespace: name another one in the sandbox", want.Namespace, want.Spec.Baseline.Name))
	case refusal != nil:
		return finding.No(refusal.Reason, refusal.Message)
	case have == nil:
		return finding.Open(crdv1.ReasonPending, fmt.Sprintf(
			"ForkedWorkload %s/%s could not be written yet; it is tried again.", want.Namespace, want.Name))
	}
	c := crdv1.FindCondition(have.Status.Conditions, crdv1.ConditionReady)
	switch {
	case c == nil || c.ObservedGeneration < have.Generation:
		return finding.Open(crdv1.ReasonPending, fmt.Sprintf(
			"ForkedWorkload %s/%s was written and has not been looked at yet.", have.Namespace, have.Name))
	case c.Status != string(metav1.ConditionTrue):
		return finding.No(c.Reason, c.Message)
	}
	return finding.Yes(c.Reason, c.Message)
}

// routing says whether the data plane knows the key, and requests for every
// fork's baseline meet a sidecar that acts on it.
func routing(d Decision, made Made) finding.Finding {
	switch {
	case made.ConfigRefusal != nil:
		return finding.No(made.ConfigRefusal.Reason, made.ConfigRefusal.Message)
	case made.Config == nil && d.Hold:
		return finding.Open(ReasonResourcesNotReady, "Nothing is routed before all resources are made.")
	case made.Config == nil:
		a := d.Findings[crdv1.ConditionAccepted]
		return finding.No(a.Reason, a.Message)
	}
	for _, t := range []string{crdv1.ConditionAccepted, crdv1.ConditionPublished} {
		c := crdv1.FindCondition(made.Config.Status.Conditions, t)
		switch {
		case c == nil || c.ObservedGeneration < made.Config.Generation:
			return finding.Open(crdv1.ReasonPending, "The routing has been declared and is not on the routing log yet.")
		case c.Status != string(metav1.ConditionTrue):
			return finding.No(c.Reason, c.Message)
		}
	}
	known := routingconfig.Known(made.Config, members(made))
	for _, w := range made.Forks {
		if w == nil {
			continue
		}
		c := crdv1.FindCondition(w.Status.Conditions, baseline.ConditionSidecarsReady)
		if c != nil && c.Reason == baseline.ReasonSidecarNotReady && known.IsYes() && known.Reason != routingconfig.ReasonNotAwaited {
			continue // Its pod is not ready either, and gets requests once the sidecar has all rules.
		}
		if c != nil && c.Status == string(metav1.ConditionFalse) {
			return finding.No(ReasonRoutingNotReady, c.Message)
		}
		if c == nil || c.Status != string(metav1.ConditionTrue) {
			return finding.Open(crdv1.ReasonPending, fmt.Sprintf(
				"It is not known yet whether requests to %s/%s meet a sidecar.", w.Namespace, w.Spec.Baseline.Name))
		}
	}
	if known.IsNo() {
		return finding.No(ReasonRoutingNotReady, known.Message)
	} else if !known.IsYes() {
		return known
	}
	return finding.Yes("RoutingReady", routed(made))
}

// members gives the members that exist.
func members(made Made) []crdv1.Member {
	var out []crdv1.Member
	for _, w := range made.Forks {
		if w != nil {
			out = append(out, w)
		}
	}
	return out
}

// routed says that the key is routed, and what of it is not.
func routed(made Made) string {
	message := "The rules of the routing key are on the routing log, every baseline has its sidecars, and every proxy knows them."
	if c := crdv1.FindCondition(made.Config.Status.Conditions, routingconfig.ConditionProxiesCurrent); c != nil && c.Reason == routingconfig.ReasonNotAwaited {
		message = "The rules of the routing key are on the routing log, and every baseline has its sidecars."
	}
	for _, w := range made.Forks {
		if w == nil {
			continue
		}
		if but := baseline.Reservation(w); but != "" {
			message += " " + but
		}
		if w.Status.RoutingConfig == nil || len(w.Status.RoutingConfig.Services) > 0 {
			continue
		}
		if c := crdv1.FindCondition(w.Status.Conditions, crdv1.ConditionServicesReady); c != nil {
			message += " " + c.Message // that no Service leads to the fork
		}
	}
	return message
}
