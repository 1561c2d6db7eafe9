package baseline

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/sidecars/coverage"
	"switchyard.dev/sidecars/inject"
)

// Reasons of SidecarsReady with the status False.
const (
	ReasonSidecarAbsent   = "SidecarAbsent"
	ReasonSidecarNotReady = "SidecarNotReady"
	ReasonPortsUnread     = "PortsUnread"
)

// Reasons of SidecarsReady for the status True with a reservation, which the message describes.
const (
	ReasonNoPods          = "NoPods"
	ReasonSomePortsUnread = "SomePortsUnread"
	// ReasonBesideProxy: pods have the proxy of another product in addition to their sidecar.
	ReasonBesideProxy = "BesideProxy"
	// ReasonPodsRefused: the API server refuses new pods. It is also a reason where the condition is
	// false: there are no pods.
	ReasonPodsRefused = "PodsRefused"
	// ReasonNoService: no Service selects the workload, so it needs no sidecar.
	ReasonNoService = "NoService"
)

// ConditionSidecarsReady is a condition that Switchyard adds to those of a member: every pod of the
// baseline has a ready DevMesh sidecar that reads a port targeted by its Services. It concerns routing and
// does not count for Ready. An outdated sidecar routes too: the message names it and the condition stays
// True.
const ConditionSidecarsReady = "SidecarsReady"

// Sidecars returns the condition SidecarsReady of a baseline, and whether every pod has a ready sidecar,
// needed or not. A baseline without a Service needs none: it receives no requests, and a message consumer
// asks the route server which messages to process. That requires a known pod template.
func Sidecars(w *Workload, pods []corev1.Pod, services []crdv1.ServiceMapping, injected inject.Settings) (f condition.Condition, present bool) {
	f = meshed(w, pods, services, injected)
	if w == nil || w.Problem != "" || len(services) > 0 {
		return f, f.IsTrue()
	}
	return condition.True(ReasonNoService, fmt.Sprintf("No Service selects %s, so no request reaches its fork, and it needs no DevMesh sidecar "+
		"(a consumer of messages asks the route server itself).", w)), f.IsTrue()
}

// meshed returns whether requests that these Services forward to pods of the baseline pass a sidecar in
// every pod. Without any pod the pod template counts. injected are the current settings of the injection,
// as far as known. Ports that are not read take precedence over sidecars that are not ready, which is
// temporary. Pending pods are not waited for. w is nil if there is no baseline.
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

// startedOf returns the pods with a sidecar that is not ready, except Pending ones. Pending pods get no
// requests, and most are Pending only briefly, during a rollout or when the workload is scaled up: each
// would change the condition of every fork twice.
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

// NeedsNone reports whether the baseline of a member needs no sidecar, according to SidecarsReady.
func NeedsNone(m crdv1.Conditioned) bool {
	c := crdv1.FindCondition(*m.StatusConditions(), ConditionSidecarsReady)
	return c != nil && c.Reason == ReasonNoService
}

// covered returns the sidecar coverage of the baseline's pods, with the ports targeted by the Services
// that are not read.
func covered(w *Workload, pods []corev1.Pod, services []crdv1.ServiceMapping, injected inject.Settings) coverage.Report {
	s := coverage.Subject{
		Workload: w.Routed(),
		Asks:     inject.Asks(w.Template.Annotations[inject.AnnotationInject]),
		Refused:  PodsRefused(w.Object),
	}
	for _, m := range services {
		s.Ports = append(s.Ports, lists.Map(m.Ports, func(p crdv1.MappedPort) uint16 { return uint16(p.TargetPort) })...)
	}
	s.Pods = append(s.Pods, lists.Map(lists.Filter(lists.Pointers(pods), counts), coverage.PodOf)...)
	return coverage.Of(s, injected, nil)
}

// absence returns the pods without a sidecar, with cause and remedy; "" if all have one.
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

// sidecarOf returns whether a pod has a sidecar, and whether it is ready.
func sidecarOf(pod *corev1.Pod) (present, ready bool) {
	p := coverage.PodOf(pod)
	return p.Present, p.Ready
}

// PodsWithSidecar returns the pods of a member's baseline that have a proxy (HasProxy), as
// namespace/name; none when there is no baseline, or it needs none. It reads by the
// selector of the baseline, best from a cache.
func PodsWithSidecar(ctx context.Context, c client.Reader, m crdv1.Member) ([]string, error) {
	ref, ok := m.BaselineRef()
	if !ok || NeedsNone(m) || !Accept("spec.baseline", ref, m.GetNamespace()).IsTrue() {
		return nil, nil
	}
	w, err := Read(ctx, c, ref)
	if err != nil || w == nil {
		return nil, err
	}
	pods, _, err := Pods(ctx, c, w)
	if err != nil {
		return nil, err
	}
	out := lists.Map(lists.Filter(lists.Pointers(pods), HasProxy), func(o *corev1.Pod) string {
		return o.Namespace + "/" + o.Name
	})
	return out, nil
}

// HasProxy reports whether a pod of a baseline can receive requests and has a DevMesh sidecar, ready or
// not. Such a sidecar must know a key before the key is reported as ready. A Pending pod gets no requests;
// it can stay unscheduled for days, and must not delay every new sandbox for that long.
func HasProxy(pod *corev1.Pod) bool {
	present, _ := sidecarOf(pod)
	return present && pod.Status.Phase != corev1.PodPending && counts(pod)
}
