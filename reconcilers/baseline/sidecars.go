package baseline

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/sidecars/coverage"
	"switchyard.dev/sidecars/inject"
)

// Reasons of SidecarsReady where it is false.
const (
	ReasonSidecarAbsent   = "SidecarAbsent"
	ReasonSidecarNotReady = "SidecarNotReady"
	ReasonPortsUnread     = "PortsUnread"
)

// Reasons of SidecarsReady where it is true and something is to be said all the
// same: the message says what holds for the requests.
const (
	ReasonNoPods          = "NoPods"
	ReasonSomePortsUnread = "SomePortsUnread"
	// ReasonBesideProxy: pods have the proxy of another product beside their sidecar.
	ReasonBesideProxy = "BesideProxy"
	// ReasonPodsRefused: the API server refuses new pods. It is also a reason where the condition is
	// false: there are no pods.
	ReasonPodsRefused = "PodsRefused"
	// ReasonNoService: no Service leads to the workload, so it needs no sidecar.
	ReasonNoService = "NoService"
)

// ConditionSidecarsReady is a condition that we add to those of a
// member: every pod of the baseline has a ready DevMesh sidecar, which reads
// a port that its Services lead to. It is about routing and does not count for Ready. An
// outdated sidecar routes too: the message names it and the condition stays True.
const ConditionSidecarsReady = "SidecarsReady"

// Sidecars reports whether the baseline has the sidecars that it needs, and whether every pod
// has a ready one, needed or not. A baseline that no Service leads to needs none: no request
// comes to it, and a consumer of messages asks the route server itself which are its own.
// What the pods of the baseline are made from has to be known for that.
func Sidecars(w *Workload, pods []corev1.Pod, services []crdv1.ServiceMapping, injected inject.Settings) (f condition.Condition, present bool) {
	f = meshed(w, pods, services, injected)
	if w == nil || w.Problem != "" || len(services) > 0 {
		return f, f.IsTrue()
	}
	return condition.True(ReasonNoService, fmt.Sprintf("No Service selects %s, so no request reaches its fork, and it needs no DevMesh sidecar "+
		"(a consumer of messages asks the route server itself).", w)), f.IsTrue()
}

// meshed reports whether requests to the baseline, led by these Services to ports of
// its pods, meet a sidecar in every pod that reads them. Without any pod it is the
// pod template that counts. injected is what pods get from their injection now,
// as far as known. Ports that are not read come before sidecars that are not ready:
// those only last. A pod that is Pending is not waited for. w may be nil: there is no baseline.
func meshed(w *Workload, pods []corev1.Pod, services []crdv1.ServiceMapping, injected inject.Settings) condition.Condition {
	if w == nil {
		return condition.Unknown(ReasonBaselineNotFound, "There is no baseline.")
	}
	r, name := covered(w, pods, services, injected), w.Ref.Namespace+"/"+w.Ref.Name
	if absent := absence(r); absent != "" {
		if r.Count(coverage.NotReady)+r.Count(coverage.Outdated) > 0 {
			name += " (" + r.Counts() + ")" // Not all that is wrong is that it is absent.
		}
		return condition.False(ReasonSidecarAbsent, "DevMesh Sidecar absent on baseline "+name+": "+absent)
	}
	if r.Unroutable() {
		return condition.False(ReasonPortsUnread, fmt.Sprintf("Requests to %s reach the baseline whatever key they carry; its sidecars do not read %s",
			name, r.Bypassed(w.Template)))
	}
	if names := startedOf(r); len(names) > 0 {
		return condition.False(ReasonSidecarNotReady, fmt.Sprintf(
			"DevMesh Sidecar not ready on baseline %s: %d of %d pods (%s)", name, len(names), r.Total, coverage.Some(names)))
	}
	refused := r.NewPodsRefused()
	if r.Total == 0 && refused != "" {
		return condition.False(ReasonPodsRefused, name+" has no pods: "+refused)
	}
	if r.Total == 0 && w.Problem != "" { // Its pods are another workload's, or are not known.
		return condition.Unknown(ReasonTemplateUnknown, w.Problem)
	}
	if r.Total == 0 {
		return condition.True(ReasonNoPods, w.Sleeping())
	}
	if len(r.Pending) == r.Total {
		return condition.True(ReasonNoPods, name+" has no pods that have started; each of them has a DevMesh Sidecar.")
	}
	message := fmt.Sprintf("Every pod of %s has a ready DevMesh Sidecar.", name)
	if names := r.Pods[coverage.Outdated]; len(names) > 0 {
		message += fmt.Sprintf(" In %d of %d it is OUTDATED (%s; %s)", len(names), r.Total, coverage.Some(names), r.Differing())
		if refused == "" {
			message += ": restart them with " + r.Restart()
		}
	}
	reason := "SidecarsReady"
	if len(r.Unread) > 0 {
		reason = ReasonSomePortsUnread
		message = strings.TrimSuffix(message, ".") +
			". Some requests reach the baseline whatever key they carry, those to " + r.Bypassed(w.Template)
	}
	if conflicts := r.Conflicts(); len(conflicts) > 0 {
		reason, message = ReasonBesideProxy, strings.TrimSuffix(message, ".")+"; but "+strings.Join(conflicts, "; ")
	}
	if refused != "" {
		reason, message = ReasonPodsRefused, strings.TrimSuffix(message, ".")+"; but "+refused
	}
	return condition.True(reason, message)
}

// startedOf returns the pods whose sidecar is not ready, but for those that are Pending.
// These get no requests, and most are so for a moment, when their workload is rolled
// out or gets more pods: each would be said to every fork of it, and taken back.
func startedOf(r coverage.Report) []string {
	return slices.DeleteFunc(slices.Clone(r.Pods[coverage.NotReady]), func(name string) bool { return slices.Contains(r.Pending, name) })
}

// Caveat returns the message of SidecarsReady where it is true with a reservation: there are no
// pods, no Service selects them, another proxy is beside the sidecar, or ports are not routed. It is
// empty otherwise.
func Caveat(m crdv1.Conditioned) string {
	c := crdv1.FindCondition(*m.StatusConditions(), ConditionSidecarsReady)
	if c == nil || !isCaveat(*c) {
		return ""
	}
	return c.Message
}

// NeedsNone reports whether the baseline of a member needs no sidecar, as SidecarsReady
// says.
func NeedsNone(m crdv1.Conditioned) bool {
	c := crdv1.FindCondition(*m.StatusConditions(), ConditionSidecarsReady)
	return c != nil && c.Reason == ReasonNoService
}

// covered returns where the pods of the baseline stand, and which of the ports that
// the Services lead to are not read.
func covered(w *Workload, pods []corev1.Pod, services []crdv1.ServiceMapping, injected inject.Settings) coverage.Report {
	s := coverage.Subject{
		Workload: w.Routed(),
		Asks:     inject.Asks(w.Template.Annotations[inject.AnnotationInject]),
		Refused:  PodsRefused(w.Object),
	}
	for _, m := range services {
		for _, p := range m.Ports {
			s.Ports = append(s.Ports, uint16(p.TargetPort))
		}
	}
	for i := range pods {
		if pod := &pods[i]; counts(pod) {
			s.Pods = append(s.Pods, coverage.PodOf(pod))
		}
	}
	return coverage.Of(s, injected, nil)
}

// absence returns which pods have no sidecar, why, and what to do; nothing when all
// have one.
func absence(r coverage.Report) string {
	if r.Unwanted() {
		return fmt.Sprintf("annotate its pod template with %s: \"true\"", crdv1.AnnotationInject)
	}
	var parts []string
	for _, why := range slices.Sorted(maps.Keys(r.Refusals)) {
		parts = append(parts, fmt.Sprintf("%d of %d pods got none (%s): %s",
			len(r.Refusals[why]), r.Total, coverage.Some(r.Refusals[why]), why))
	}
	if names := r.Unexplained(); len(names) > 0 {
		todo := cmp.Or(r.NewPodsRefused(), "restart them with "+r.Restart())
		parts = append(parts, fmt.Sprintf("%d of %d pods started without it (%s), before it was asked for or while the operator was away: %s", len(names), r.Total, coverage.Some(names), todo))
	}
	return strings.Join(parts, "; ")
}

// counts reports whether requests can reach the pod.
func counts(pod *corev1.Pod) bool { return coverage.Counts(pod) }

// sidecarOf looks for the sidecar of a pod.
func sidecarOf(pod *corev1.Pod) (present, ready bool) {
	p := coverage.PodOf(pod)
	return p.Present, p.Ready
}
