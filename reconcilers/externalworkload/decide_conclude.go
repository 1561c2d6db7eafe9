package externalworkload

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/member"
)

// Reasons of ServicesReady, in addition to those of refusals.
const (
	ReasonServicesMissing = "ServicesMissing"
	// ReasonPortNotFound: a diverted port is no port of the baseline, so that requests meant for the
	// workstation would reach the baseline.
	ReasonPortNotFound = "PortNotFound"
	// ReasonNoEndpoints: connections to the Services are refused, for want of a tunnel.
	ReasonNoEndpoints = "NoEndpoints"
	// ReasonPortsNotCarried: connections to some ports are refused.
	ReasonPortsNotCarried = "PortsNotCarried"
	// ReasonAddressFamily: the Services have addresses of another family than the pod
	// that holds the tunnel.
	ReasonAddressFamily = "AddressFamilyMismatch"
	// ReasonPortsUnreachable: the Services are ready, and no request reaches some port that the
	// spec or a Service lists.
	ReasonPortsUnreachable = "PortsUnreachable"
)

// Made lists the objects that exist after the decision was applied.
type Made struct {
	member.Made
	// EndpointsRefusal is why endpoints were not written; nil when all were.
	EndpointsRefusal *apply.Refusal
}

// Conclude returns the external workload with its new status. now is taken as the time
// of conditions that changed.
func Conclude(in Input, d Decision, made Made, now metav1.Time) *crdv1.SignadotExternalWorkload {
	w := in.Workload.DeepCopy()
	w.Status.ObservedGeneration = w.Generation
	if w.Status.Baseline = in.Seen.Status(w.Status.Baseline); !in.takesRequests() || !in.reached() {
		w.Status.Baseline = nil
	}
	if d.Collect {
		w.Status.Tunnel.Info = nil
	}
	in.settle(w.Status.Tunnel)
	services := made.Mapped(d.Services)
	sidecar, present := sidecars(in, services)
	w.Status.RoutingConfig = routingInfo(in, services, present)
	conditions := maps.Clone(d.Conditions)
	conditions[crdv1.ConditionServicesReady] = servicesCondition(in, d, made)
	conditions[baseline.ConditionSidecarsReady] = sidecar
	in.WriteReached(w, conditions)
	conditions[crdv1.ConditionReady] = conditions.Ready("Requests reach the workstation.",
		crdv1.ConditionBaselineFound, crdv1.ConditionAccepted, crdv1.ConditionTunnelConnected, crdv1.ConditionServicesReady, baseline.ConditionBaselineReached)
	condition.Write(w, conditions, now)
	return w
}

// sidecars reports whether requests to the baseline meet a sidecar, and whether each of its
// pods has a ready one.
func sidecars(in Input, services []crdv1.ServiceMapping) (f condition.Condition, present bool) {
	if !in.takesRequests() {
		return condition.True(ReasonNoBaseline, "It has no baseline, so no sidecar is needed."), false
	}
	return in.Sidecars(services)
}

// routingInfo returns how traffic can reach the workstation; nil as long as that is not known.
func routingInfo(in Input, services []crdv1.ServiceMapping, present bool) *crdv1.WorkloadRoutingInfo {
	if !in.reached() {
		return nil
	}
	return &crdv1.WorkloadRoutingInfo{DevMeshSidecarPresent: present, Services: services, FormerServices: in.Former(in.Workload)}
}

// servicesCondition returns whether there is a Service for each of the baseline's, and
// connections to all of them are accepted.
func servicesCondition(in Input, d Decision, made Made) condition.Condition {
	if !d.Conditions[crdv1.ConditionBaselineFound].IsTrue() {
		return condition.Unknown(baseline.ReasonBaselineNotFound, "There is no baseline to take Services from.")
	}
	for _, m := range d.Services {
		if r := made.ServiceRefusals[m.From]; r != nil {
			return condition.False(r.Reason, r.Message)
		}
	}
	if r := made.EndpointsRefusal; r != nil {
		return condition.False(r.Reason, r.Message)
	}
	if lost := misplaced(in, d); lost != "" {
		return condition.False(ReasonPortNotFound, lost)
	}
	count := 0
	for _, m := range d.Services {
		have := made.Services[m.From]
		if m.Service == nil {
			continue
		}
		if !member.Reachable(have) {
			return condition.False(ReasonServicesMissing, "There is no Service yet for "+named(m)+".")
		}
		if foreign(have, d.Tunnel) {
			return condition.False(ReasonAddressFamily, fmt.Sprintf(
				"Service %s has addresses of %v and the tunnel ends at %s: connections are refused; let the pods that hold tunnels have addresses of the family that Services have",
				have.Name, have.Spec.IPFamilies, d.Tunnel.Address))
		}
		count++
	}
	return endpointsCondition(in, d, made, count)
}

// endpointsCondition returns whether connections to the Services, of which there are so
// many, are accepted.
func endpointsCondition(in Input, d Decision, made Made, count int) condition.Condition {
	if !d.Tunnel.Connected.IsTrue() {
		return condition.Condition{Status: d.Tunnel.Connected.Status, Reason: ReasonNoEndpoints, Message: fmt.Sprintf(
			"Services: %d. No usable tunnel is behind them, so requests fail.", count)}
	}
	uncarried := listed(d.Services, func(m member.Mapping) []int32 { return m.Uncarried })
	if uncarried != "" {
		message := "The tunnel does not carry these ports, so that requests to them fail: " + uncarried + "."
		if d.Tunnel.PortsProblem != "" {
			message += " The reported ports are invalid: " + d.Tunnel.PortsProblem + "."
		}
		return condition.False(ReasonPortsNotCarried, message)
	}
	if !in.takesRequests() {
		var names []string
		for _, s := range made.Services {
			names = append(names, s.Name+"."+s.Namespace+".svc")
		}
		return condition.True("ServicesReady", "The workstation is reached in the cluster as "+strings.Join(names, ", ")+".")
	}
	if len(d.Services) == 0 && len(in.Reach.Had) > 0 {
		return condition.True(crdv1.ConditionServicesReady, fmt.Sprintf("No Service selects %s any more.", in.baselineName()))
	}
	if len(d.Services) == 0 {
		return condition.True(baseline.ReasonNoService, fmt.Sprintf("No Service selects %s (one with the annotation %s does not count), so no request is routed to the workstation: create a Service.",
			in.baselineName(), crdv1.AnnotationIgnore))
	}
	staying := staying(d)
	if lost := unreachable(d); len(lost) > 0 {
		return condition.True(ReasonPortsUnreachable, strings.Join(append(lost, staying...), "; ")+".")
	}
	message := strings.Join(append([]string{fmt.Sprintf("Services of the baseline that have a tunnel: %d", count)}, staying...), ". ") + "."
	return condition.True("ServicesReady", message)
}

// staying returns sentences for a message: the ports that stay at the baseline because the spec does not list them.
func staying(d Decision) (out []string) {
	ports := func(some bool) string {
		return listed(d.Services, func(m member.Mapping) []int32 {
			return slices.DeleteFunc(slices.Clone(m.Staying), func(p int32) bool { return slices.Contains(m.Missing, p) == some })
		})
	}
	if all := ports(false); all != "" {
		out = append(out, "Requests to these ports stay at the baseline, because spec.tunnel.baselineToLocals does not list them: "+all)
	}
	if some := ports(true); some != "" {
		out = append(out, "Requests to these ports stay at pods that listen at a number which spec.tunnel.baselineToLocals does not list: "+some)
	}
	return out
}

// unreachable returns which requests reach neither the workstation nor the baseline.
func unreachable(d Decision) (out []string) {
	if len(d.Unled) > 0 {
		out = append(out, "No Service targets these ports, so no request to them goes to the workstation: "+numbers(d.Unled))
	}
	if unknown := withoutTarget(d); unknown != "" {
		out = append(out, "No container declares the target that these Service ports name, so requests to them fail: "+unknown)
	}
	return out
}

// withoutTarget lists the ports with a named target that no container declares.
func withoutTarget(d Decision) string {
	return listed(d.Services, func(m member.Mapping) []int32 {
		return slices.DeleteFunc(slices.Clone(m.Missing), func(p int32) bool {
			return slices.Contains(m.Staying, p) || slices.Contains(m.Uncarried, p)
		})
	})
}

// misplaced returns a message about a port of the spec that is none of the baseline's, as far as that is
// known: no Service targets it, Services target other ports, and no container declares it. It returns ""
// if there is none.
func misplaced(in Input, d Decision) string {
	if in.Baseline == nil || len(d.Services) == 0 {
		return ""
	}
	declared := map[int32]bool{}
	for _, c := range baseline.Running(in.Baseline.Template.Spec) {
		for _, p := range c.Ports {
			declared[p.ContainerPort] = true
		}
	}
	for _, port := range d.Unled {
		if declared[port] {
			continue
		}
		message := fmt.Sprintf("spec.tunnel.baselineToLocals lists port %d: no container of %s declares it and no Service targets it, so the workstation would receive no request.",
			port, in.baselineName())
		return message + behind(in, d, port)
	}
	return ""
}

// behind returns a hint for a port that is not listed by its container port: the container port behind the
// Service port of that number, if there is one.
func behind(in Input, d Decision, port int32) string {
	for _, m := range d.Services {
		for i := range in.Neighbours {
			s := &in.Neighbours[i]
			if s.Name != m.From {
				continue
			}
			for _, p := range s.Spec.Ports {
				if target, ok := baseline.ListensOn(in.Baseline.Template.Spec, p); ok && p.Port == port {
					return fmt.Sprintf(" Service %s has this port; that of the container behind it is %d: list that.", s.Name, target)
				}
			}
		}
	}
	return " List ports of its containers."
}

// foreign reports whether no address of the Service is of the tunnel's family.
func foreign(s *corev1.Service, t Tunnel) bool {
	family := corev1.IPv4Protocol
	if t.Address.Is6() {
		family = corev1.IPv6Protocol
	}
	return t.Address.IsValid() && len(s.Spec.IPFamilies) > 0 && !slices.Contains(s.Spec.IPFamilies, family)
}

// named names a Mapping for messages.
func named(m member.Mapping) string {
	return cmp.Or(m.From, "the tunnel")
}

// listed lists some ports of the Mappings for a message; empty when there are none.
func listed(all []member.Mapping, of func(member.Mapping) []int32) string {
	var out []string
	for _, m := range all {
		if ports := of(m); len(ports) > 0 {
			out = append(out, named(m)+" "+numbers(ports))
		}
	}
	return strings.Join(out, "; ")
}

// numbers lists ports for a message.
func numbers(ports []int32) string {
	return strings.Trim(strings.Join(strings.Fields(fmt.Sprint(ports)), ", "), "[]")
}

// holderAgain is the interval at which a pod at the end of a tunnel is checked if it is outside the
// operator's namespace: unless it has a sidecar, it is not watched.
const holderAgain = 5 * time.Second

// lookAgain returns the time after which to reconcile again without a watched change; zero for never. o
// has the new status.
func lookAgain(in Input, d Decision, made Made, o *crdv1.SignadotExternalWorkload, now time.Time) time.Duration {
	var after time.Duration
	if !d.Tunnel.Turns.IsZero() {
		after = max(d.Tunnel.Turns.Sub(now), time.Millisecond)
	}
	within := func(most time.Duration) {
		if after == 0 || after > most {
			after = most
		}
	}
	if len(made.ServiceRefusals)+len(made.CaptureRefusals) > 0 || made.EndpointsRefusal != nil {
		within(apply.RefusedAgain)
	}
	if in.holderUnwatched() {
		within(holderAgain)
	}
	if again := in.ReachAgain(); again > 0 {
		within(again)
	}
	if refreshed := in.refreshAt(o.Status.Tunnel); !refreshed.IsZero() {
		within(max(refreshed.Sub(now), time.Millisecond))
	}
	return after
}

// Fact returns the fact about an external workload; w has the status that Conclude returned. The fact is
// withdrawn from the log if the external workload has no baseline, and so takes no requests, or if the
// pods of its baseline are not known: the log may still have the fact of a previous object of that name or
// of a previous baseline. Fact returns false while a wanted Service has no address yet
// (member.Made.Pairs).
func Fact(w *crdv1.SignadotExternalWorkload, d Decision, made Made) (event.Fact, bool) {
	fact, ok := member.Observed(w)
	if !ok || w.Status.RoutingConfig == nil {
		return member.Withdrawn(w), true
	}
	fact.Ready = d.Tunnel.Connected.IsTrue()
	fact.Tunnel = &factv1.Tunnel{Connected: d.Tunnel.Connected.IsTrue()}
	if d.Tunnel.Address.IsValid() {
		fact.Tunnel.ProxyPod, fact.Tunnel.ProxyIp = d.Tunnel.Pod, d.Tunnel.Address.String()
	}
	if fact.Services, ok = made.Pairs(d.Services); !ok {
		return event.Fact{}, false
	}
	return member.Fact(w, fact), true
}
