package routing

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/sidecars/inject"
)

// ConditionIstioRoutesReady is a condition that we add to those of a RoutingConfig while Istio
// is on: every IstioRoute that it asks for is ready. It does not count for Ready by itself,
// since a workload with DevMesh sidecars needs no VirtualService.
const ConditionIstioRoutesReady = "IstioRoutesReady"

// IstioRoutes are those that a RoutingConfig has, by name: what they say of what is asked for
// now. It is nil while Istio is off.
type IstioRoutes map[string]crdv1.IstioRouteStatus

// IstioRoutesIn returns the IstioRoutes that the status of a RoutingConfig tells of.
func IstioRoutesIn(c *crdv1.RoutingConfig) IstioRoutes {
	if c == nil || crdv1.FindCondition(c.Status.Conditions, ConditionIstioRoutesReady) == nil {
		return nil
	}
	out := IstioRoutes{}
	for _, w := range c.Status.ProcessedWorkloads {
		if w.Routes == nil {
			continue
		}
		for _, route := range w.Routes.Istio {
			if route.Status != nil {
				out[route.Name] = *route.Status
			}
		}
	}
	return out
}

// RoutedByIstio returns the workloads that VirtualServices route: every IstioRoute that a
// RoutingConfig has for their Services is ready. It is by this that Sidecars passes over pods
// without a sidecar.
func RoutedByIstio(all []crdv1.IstioRoute) map[inject.Workload]bool {
	routed := map[inject.Workload]bool{}
	for i := range all {
		route := &all[i]
		maker := metav1.GetControllerOfNoCopy(route)
		if maker == nil || maker.APIVersion != crdv1.APIVersion || maker.Kind != crdv1.KindRoutingConfig {
			continue
		}
		of := route.Spec.Managed.Baseline.WorkloadRef
		w := inject.Workload{Kind: baseline.RoutedKind(crdv1.ObjectRef{Kind: of.Kind}), Namespace: of.Namespace, Name: of.Name}
		ready := crdv1.FindCondition(route.Status.Conditions, crdv1.ConditionReady)
		is := ready != nil && ready.Status == string(metav1.ConditionTrue) && route.Status.ObservedGeneration >= route.Generation
		before, known := routed[w]
		routed[w] = is && (before || !known)
	}
	return routed
}

// WantedIstioRoutes returns the IstioRoutes that the RoutingConfig asks for: one for each
// Service of a baseline that a fork or an external workload stands for, of its holder.
func (r Routing) WantedIstioRoutes() []*crdv1.IstioRoute {
	holders := r.istioHolders()
	var out []*crdv1.IstioRoute
	for _, m := range r.Named() {
		have := r.Member(m)
		if have == nil {
			continue
		}
		at, _ := have.BaselineRef()
		for _, s := range istioServices(have) {
			if NameIn(holders[inNamespace{at.Namespace, s.From}]) == NameIn(m) {
				out = append(out, r.istioRoute(m, have, s))
			}
		}
	}
	return out
}

// inNamespace names a Service.
type inNamespace struct{ namespace, service string }

// istioHolders returns the members that get the requests for Services of baselines from
// VirtualServices. Where two stand for one baseline, it is the one that holds it; where a Service
// leads to pods of several baselines, it is the one of the first, as package adapter has it, which
// reads the routing log in that order.
func (r Routing) istioHolders() map[inNamespace]crdv1.SandboxedWorkload {
	lost := map[member.Name]bool{}
	for _, c := range r.Conflicts() {
		lost[member.Name{Kind: c.Loser.Kind, Namespace: c.Loser.Namespace, Name: c.Loser.Name}] = true
	}
	out := map[inNamespace]crdv1.SandboxedWorkload{}
	for _, m := range r.Named() {
		have := r.Member(m)
		if have == nil || lost[NameIn(m)] {
			continue
		}
		at, _ := have.BaselineRef()
		for _, s := range istioServices(have) {
			id := inNamespace{at.Namespace, s.From}
			if holder, held := out[id]; !held || onLog(at).Compare(onLog(r.baselineOf(holder))) < 0 {
				out[id] = m
			}
		}
	}
	return out
}

// onLog names a baseline as the routing log does.
func onLog(ref crdv1.ObjectRef) table.Workload {
	return table.Workload{Kind: baseline.RoutedKind(ref), Namespace: ref.Namespace, Name: ref.Name}
}

// baselineOf returns the baseline of a member that there is.
func (r Routing) baselineOf(m crdv1.SandboxedWorkload) crdv1.ObjectRef {
	ref, _ := r.Member(m).BaselineRef()
	return ref
}

// istioServices returns the Services of a member's baseline for which there is to be an
// IstioRoute. The requests of a virtual workload stay with the baseline.
func istioServices(m crdv1.Member) (out []crdv1.ServiceMapping) {
	if m.MemberKind() == crdv1.KindVirtualWorkload || m.RoutingInfo() == nil || m.ObservedBaseline() == nil || !TakesRequests(m) {
		return nil
	}
	for _, s := range m.RoutingInfo().Services {
		if s.From != "" && s.To != "" && len(s.Ports) > 0 {
			out = append(out, s)
		}
	}
	return out
}

// istioRouteName returns the name of the IstioRoute of a Service of a baseline.
func (r Routing) istioRouteName(namespace, service string) string {
	return crdv1.ObjectName(crdv1.MaxObjectName, r.Config.Name, namespace, service)
}

// istioRoute returns the IstioRoute of one Service, which the RoutingConfig owns.
func (r Routing) istioRoute(m crdv1.SandboxedWorkload, have crdv1.Member, s crdv1.ServiceMapping) *crdv1.IstioRoute {
	at, _ := have.BaselineRef()
	ref := m.SandboxedWorkloadRef
	ref.SandboxName = r.SandboxName(m)
	route := &crdv1.IstioRoute{
		TypeMeta: metav1.TypeMeta{APIVersion: crdv1.APIVersion, Kind: crdv1.KindIstioRoute},
		ObjectMeta: metav1.ObjectMeta{
			Name: r.istioRouteName(at.Namespace, s.From), Labels: labelsOf(r.Config),
			Annotations:     map[string]string{crdv1.AnnotationRoutingKey: r.Config.RoutingKey()},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(r.Config, crdv1.GroupVersion().WithKind(crdv1.KindRoutingConfig))},
		},
		Spec: crdv1.IstioRouteSpec{RoutingKey: r.Config.RoutingKey(), Managed: crdv1.ManagedIstioRoute{
			Baseline: crdv1.IstioRouteBaseline{
				WorkloadBaseline: *have.ObservedBaseline(),
				WorkloadRef:      crdv1.WorkloadRef{Kind: at.Kind, Namespace: at.Namespace, Name: at.Name},
			},
			Middlewares: m.Middlewares, Namespace: at.Namespace, SandboxedWorkload: ref, TargetService: s.From,
		}},
	}
	for _, p := range s.Ports {
		route.Spec.Managed.Mappings = append(route.Spec.Managed.Mappings, crdv1.IstioPortMapping{FromPort: p.Port, ToService: s.To, WorkloadPort: p.TargetPort})
	}
	return route
}

// labelsOf returns the labels by which what is made for a RoutingConfig is found again.
func labelsOf(c *crdv1.RoutingConfig) map[string]string {
	out := map[string]string{}
	for _, l := range []string{crdv1.LabelSandbox, crdv1.LabelRouteGroup} {
		if v := c.Labels[l]; v != "" {
			out[l] = v
		}
	}
	return out
}

// IstioOf returns the IstioRoutes of a member's Services, with what they say.
func (r Routing) IstioOf(m crdv1.Member) (out []crdv1.ProcessedIstioRoute) {
	if r.Istio == nil {
		return nil
	}
	for _, s := range istioServices(m) {
		at, _ := m.BaselineRef()
		route := crdv1.ProcessedIstioRoute{Name: r.istioRouteName(at.Namespace, s.From)}
		if status, known := r.Istio[route.Name]; known {
			route.Status = &status
		}
		out = append(out, route)
	}
	return out
}

// IstioServices returns which VirtualServices route to the Services of a member's baseline.
func (r Routing) IstioServices(m crdv1.Member) (out []crdv1.IstioServiceRouting) {
	if r.Istio == nil {
		return nil
	}
	for _, s := range istioServices(m) {
		at, _ := m.BaselineRef()
		out = append(out, crdv1.IstioServiceRouting{
			BaselineService: s.From, MatchedVirtualServices: r.Istio[r.istioRouteName(at.Namespace, s.From)].MatchedVirtualServices,
		})
	}
	return out
}

// IstioRoutesReady reports whether every IstioRoute that is asked for is ready.
func (r Routing) IstioRoutesReady() condition.Condition {
	n, holders := 0, r.istioHolders()
	var waits condition.Condition
	for _, m := range r.Named() {
		if r.Member(m) == nil {
			continue
		}
		f, any := r.ledByIstio(m, holders)
		switch {
		case !any:
		case f.IsFalse():
			return f
		case !f.IsTrue():
			waits = f
		default:
			n++
		}
	}
	if waits.Status != "" {
		return waits
	}
	return condition.True(ConditionIstioRoutesReady, fmt.Sprintf("Workloads that VirtualServices lead to: %d.", n))
}

// ledByIstio reports whether VirtualServices lead requests with the key to a member that there is,
// for each Service of its baseline; any is false where there is no such Service.
func (r Routing) ledByIstio(m crdv1.SandboxedWorkload, holders map[inNamespace]crdv1.SandboxedWorkload) (f condition.Condition, any bool) {
	services := istioServices(r.Member(m))
	if r.Istio == nil || len(services) == 0 {
		return f, false
	}
	at := r.baselineOf(m)
	var waits *condition.Condition
	for _, s := range services {
		if holder, held := holders[inNamespace{at.Namespace, s.From}]; held && !baseline.Same(r.baselineOf(holder), at) {
			return condition.False(ReasonRoutingConflict, fmt.Sprintf(
				"Service %s/%s leads to pods of two workloads: VirtualServices lead its requests with the key to %s, and none to %s. Make a Service for each, or take one of the two away from this routing key.",
				at.Namespace, s.From, whose(Ref(r.Member(holder), r.SandboxName(holder))), whose(Ref(r.Member(m), r.SandboxName(m))))), true
		}
		status, known := r.Istio[r.istioRouteName(at.Namespace, s.From)]
		c := crdv1.FindCondition(status.Conditions, crdv1.ConditionReady)
		switch {
		case !known || c == nil, c.Reason == crdv1.ReasonPending:
			f := condition.Unknown(crdv1.ReasonPending, fmt.Sprintf("The VirtualServices that route to Service %s/%s are getting their routes.", at.Namespace, s.From))
			waits = &f
		case c.Status != string(metav1.ConditionTrue):
			return condition.Condition{Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message}, true
		}
	}
	if waits != nil {
		return *waits, true
	}
	return condition.True(ConditionIstioRoutesReady, fmt.Sprintf("VirtualServices lead requests for %s %s/%s to the sandbox.", at.Kind, at.Namespace, at.Name)), true
}
