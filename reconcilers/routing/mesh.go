package routing

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/meshes/gatewayapi"
	"switchyard.dev/sidecars/inject"
)

// Conditions of RoutingConfigs that this operator adds while a mesh is on: all of their mesh routes are
// ready. They do not count for Ready by themselves, since a workload with DevMesh sidecars needs no
// mesh.
const (
	ConditionIstioRoutesReady      = "IstioRoutesReady"
	ConditionGatewayAPIRoutesReady = "GatewayAPIRoutesReady"
)

// mesh is a way of routing beside DevMesh.
type mesh struct {
	// kind is the kind of its mesh routes, one for each Service of a baseline.
	kind string
	// ready is the condition of a RoutingConfig about it.
	ready string
	// by is the name of the objects that route requests, for messages.
	by string
}

// meshes are all; where two have matched a Service the first counts.
var meshes = []mesh{
	{crdv1.KindIstioRoute, ConditionIstioRoutesReady, "VirtualServices"},
	{crdv1.KindGatewayAPIRoute, ConditionGatewayAPIRoutesReady, "HTTPRoutes and GRPCRoutes"},
}

// MeshRoutes are the mesh routes of a RoutingConfig with a current status, by kind and name. It has an
// entry for each mesh that is on, even if that is empty.
type MeshRoutes map[string]map[string]crdv1.MeshRoute

// Has reports whether a mesh is on, by its kind.
func (m MeshRoutes) Has(kind string) bool { return m[kind] != nil }

// Begin records that a mesh is on.
func (m MeshRoutes) Begin(kind string) { m[kind] = map[string]crdv1.MeshRoute{} }

// MeshRoutesIn returns the mesh routes in the status of a RoutingConfig.
func MeshRoutesIn(c *crdv1.RoutingConfig) MeshRoutes {
	out := MeshRoutes{}
	if c == nil {
		return out
	}
	for _, m := range meshes {
		if crdv1.FindCondition(c.Status.Conditions, m.ready) != nil {
			out.Begin(m.kind)
		}
	}
	for _, w := range c.Status.ProcessedWorkloads {
		if w.Routes == nil {
			continue
		}
		for _, r := range w.Routes.Istio {
			if r.Status != nil && out.Has(crdv1.KindIstioRoute) {
				out[crdv1.KindIstioRoute][r.Name] = &crdv1.IstioRoute{Status: *r.Status}
			}
		}
		for _, r := range w.Routes.GatewayAPI {
			if r.Status != nil && out.Has(crdv1.KindGatewayAPIRoute) {
				out[crdv1.KindGatewayAPIRoute][r.Name] = &crdv1.GatewayAPIRoute{Status: *r.Status}
			}
		}
	}
	return out
}

// WantedMeshRoutes returns the mesh routes of a kind that the RoutingConfig needs: one for each
// baseline Service of a member that meshes route to it (meshServices), for the holder of its requests.
func (r Routing) WantedMeshRoutes(kind crdv1.Kind) []crdv1.MeshRoute {
	holders := r.holders()
	var out []crdv1.MeshRoute
	for _, m := range r.Named() {
		have := r.Member(m)
		if have == nil {
			continue
		}
		at, _ := have.BaselineRef()
		for _, s := range meshServices(have) {
			if NameIn(holders[inNamespace{at.Namespace, s.From}]) != NameIn(m) {
				continue
			}
			if route := r.meshRoute(kind, m, have, s); route != nil {
				out = append(out, route)
			}
		}
	}
	return out
}

// meshServices returns the baseline Services of a member that meshes route to it. A virtual workload
// has none, since its requests stay with the baseline, unless they are recorded and the baseline has no
// sidecars to send them there, ready or not.
func meshServices(m crdv1.Member) []crdv1.ServiceMapping {
	if m.RoutingInfo() == nil || m.MemberKind() == crdv1.KindVirtualWorkload && !lacksSidecars(m) || m.ObservedBaseline() == nil || !TakesRequests(m) {
		return nil
	}
	return lists.Filter(m.RoutingInfo().Services, func(s crdv1.ServiceMapping) bool {
		return s.From != "" && s.To != "" && len(s.Ports) > 0
	})
}

// meshRouteName returns the name of the mesh route for a Service of a baseline.
func (r Routing) meshRouteName(namespace, service string) string {
	return crdv1.ObjectName(crdv1.MaxObjectName, r.Config.Name, namespace, service)
}

// meshRoute returns the mesh route for one Service, owned by the RoutingConfig.
func (r Routing) meshRoute(kind crdv1.Kind, m crdv1.SandboxedWorkload, have crdv1.Member, s crdv1.ServiceMapping) crdv1.MeshRoute {
	route, is := kind.New().(crdv1.MeshRoute)
	if !is {
		return nil
	}
	at, _ := have.BaselineRef()
	ref := m.SandboxedWorkloadRef
	ref.SandboxName = r.SandboxName(m)
	route.GetObjectKind().SetGroupVersionKind(crdv1.GroupVersion().WithKind(kind.Name))
	route.SetName(r.meshRouteName(at.Namespace, s.From))
	route.SetLabels(labelsOf(r.Config))
	route.SetAnnotations(map[string]string{crdv1.AnnotationRoutingKey: r.Config.RoutingKey()})
	route.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(r.Config, crdv1.GroupVersion().WithKind(crdv1.KindRoutingConfig))})
	asked := route.Asked()
	*asked = crdv1.IstioRouteSpec{RoutingKey: r.Config.RoutingKey(), Managed: crdv1.ManagedIstioRoute{
		Baseline: crdv1.IstioRouteBaseline{
			WorkloadBaseline: *have.ObservedBaseline(),
			WorkloadRef:      crdv1.WorkloadRef{Kind: at.Kind, Namespace: at.Namespace, Name: at.Name},
		},
		Middlewares: m.Middlewares, Namespace: at.Namespace, SandboxedWorkload: ref, TargetService: s.From,
	}}
	for _, p := range lists.Filter(s.Ports, func(p crdv1.MappedPort) bool { return !p.KeptAtBaseline }) {
		asked.Managed.Mappings = append(asked.Managed.Mappings, crdv1.IstioPortMapping{FromPort: p.Port, ToService: s.To, WorkloadPort: p.TargetPort})
	}
	return route
}

// labelsOf returns the labels of objects that are created for a RoutingConfig.
func labelsOf(c *crdv1.RoutingConfig) map[string]string {
	out := map[string]string{}
	for _, l := range []string{crdv1.LabelSandbox, crdv1.LabelRouteGroup} {
		if v := c.Labels[l]; v != "" {
			out[l] = v
		}
	}
	return out
}

// asked is the mesh route for a Service: its name, and the route itself, nil if there is none with a
// current status.
type asked struct {
	service, name string
	route         crdv1.MeshRoute
}

// askedOf returns the mesh routes for a member's Services.
func (r Routing) askedOf(kind string, m crdv1.Member) []asked {
	if !r.Mesh.Has(kind) {
		return nil
	}
	at, _ := m.BaselineRef()
	return lists.Map(meshServices(m), func(s crdv1.ServiceMapping) asked {
		name := r.meshRouteName(at.Namespace, s.From)
		return asked{s.From, name, r.Mesh[kind][name]}
	})
}

// IstioOf returns the IstioRoutes of a member's Services, with their status.
func (r Routing) IstioOf(m crdv1.Member) []crdv1.ProcessedIstioRoute {
	return lists.Map(r.askedOf(crdv1.KindIstioRoute, m), func(a asked) crdv1.ProcessedIstioRoute {
		p := crdv1.ProcessedIstioRoute{Name: a.name}
		if route, known := a.route.(*crdv1.IstioRoute); known {
			p.Status = route.Status.DeepCopy()
		}
		return p
	})
}

// GatewayAPIOf returns the GatewayAPIRoutes of a member's Services, with their status.
func (r Routing) GatewayAPIOf(m crdv1.Member) []crdv1.ProcessedGatewayAPIRoute {
	return lists.Map(r.askedOf(crdv1.KindGatewayAPIRoute, m), func(a asked) crdv1.ProcessedGatewayAPIRoute {
		p := crdv1.ProcessedGatewayAPIRoute{Name: a.name}
		if route, known := a.route.(*crdv1.GatewayAPIRoute); known {
			p.Status = route.Status.DeepCopy()
		}
		return p
	})
}

// IstioServices returns which VirtualServices route to the Services of a member's baseline.
func (r Routing) IstioServices(m crdv1.Member) []crdv1.IstioServiceRouting {
	return lists.Map(r.askedOf(crdv1.KindIstioRoute, m), func(a asked) crdv1.IstioServiceRouting {
		routing := crdv1.IstioServiceRouting{BaselineService: a.service}
		if route, known := a.route.(*crdv1.IstioRoute); known {
			routing.MatchedVirtualServices = route.Status.MatchedVirtualServices
		}
		return routing
	})
}

// MeshCondition returns the condition of a RoutingConfig about a mesh, by its kind.
func MeshCondition(kind string) string { return meshOf(kind).ready }

func meshOf(kind string) mesh {
	return meshes[slices.IndexFunc(meshes, func(m mesh) bool { return m.kind == kind })]
}

// MeshRoutesReady reports whether everything that a mesh is asked for is ready.
func (r Routing) MeshRoutesReady(kind string) condition.Condition {
	of, n, holders := meshOf(kind), 0, r.holders()
	var waits condition.Condition
	for _, m := range r.Named() {
		if r.Member(m) == nil {
			continue
		}
		f, any := r.ledBy(m, holders, of)
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
	return condition.True(of.ready, fmt.Sprintf("Workloads routed by %s: %d.", of.by, n))
}

// RoutedByMesh returns whether a mesh routes requests to a member that no sidecar does: its baseline has none. True for all
// other members.
func (r Routing) RoutedByMesh(to crdv1.Member) condition.Condition {
	for _, m := range r.Named() {
		if have := r.Member(m); have == nil || NameIn(m) != member.NameOf(to) || !lacksSidecars(have) {
			continue
		}
		if by, any := r.ledByMesh(m, r.holders()); any {
			return by
		}
	}
	return condition.Condition{Status: metav1.ConditionTrue}
}

// ledByMesh returns the condition that, for each Service of an existing member's baseline, one of the
// meshes that are on routes requests with the key to the member. any is false if there is no such
// Service.
func (r Routing) ledByMesh(m crdv1.SandboxedWorkload, holders map[inNamespace]crdv1.SandboxedWorkload) (f condition.Condition, any bool) {
	return r.ledBy(m, holders, r.meshesOn()...)
}

// meshesOn returns the meshes that are on.
func (r Routing) meshesOn() []mesh {
	return lists.Filter(meshes, func(m mesh) bool { return r.Mesh.Has(m.kind) })
}

// ledBy does so for some meshes.
func (r Routing) ledBy(m crdv1.SandboxedWorkload, holders map[inNamespace]crdv1.SandboxedWorkload, by ...mesh) (f condition.Condition, any bool) {
	services := meshServices(r.Member(m))
	if len(by) == 0 || len(services) == 0 {
		return f, false
	}
	at := r.baselineOf(m)
	var waits *condition.Condition
	var leading, edges, beside []string
	for _, s := range services {
		if holder, held := holders[inNamespace{at.Namespace, s.From}]; held && !baseline.Same(r.baselineOf(holder), at) {
			return condition.False(ReasonRoutingConflict, fmt.Sprintf(
				"Service %s/%s selects pods of two workloads: its requests with the key reach %s, and none reaches %s. Create a Service for each, or remove one of the two from this routing key.",
				at.Namespace, s.From, memberName(Ref(r.Member(holder), r.SandboxName(holder))), memberName(Ref(r.Member(m), r.SandboxName(m))))), true
		}
		f, leads := r.serviceLed(at.Namespace, s.From, by)
		switch {
		case f.IsTrue():
			if !slices.Contains(leading, leads.by) {
				leading = append(leading, leads.by)
			}
			name := r.meshRouteName(at.Namespace, s.From)
			if !withinMesh(r.Mesh[leads.kind][name]) {
				edges = append(edges, s.From)
			}
			if governed(r.Mesh[crdv1.KindGatewayAPIRoute][name]) {
				beside = append(beside, s.From)
			}
		case f.Reason == crdv1.ReasonPending:
			waits = &f
		default:
			return f, true
		}
	}
	if waits != nil {
		return *waits, true
	}
	var but string
	if len(edges) > 0 {
		but = fmt.Sprintf(" But only routes of Gateways forward to Service %s: requests from within the mesh reach the baseline.", strings.Join(edges, ", "))
	}
	if len(beside) > 0 {
		but += fmt.Sprintf(" But HTTPRoutes or GRPCRoutes also forward to Service %s: requests that they match reach the baseline.", strings.Join(beside, ", "))
	}
	return condition.True(by[0].ready, fmt.Sprintf("%s route requests for %s %s/%s to the sandbox.%s", strings.Join(leading, " and "), at.Kind, at.Namespace, at.Name, but)), true
}

// serviceLed returns the Ready condition of the mesh that routes requests for a Service, and that mesh.
// If none does, it is the condition of one that is pending, else of one that has matched the Service,
// else of the first.
func (r Routing) serviceLed(namespace, service string, by []mesh) (f condition.Condition, leads mesh) {
	best := -1
	for i, m := range by {
		said := r.Mesh[m.kind][r.meshRouteName(namespace, service)]
		var c *crdv1.StatusCondition
		if said != nil {
			c = crdv1.FindCondition(*said.StatusConditions(), crdv1.ConditionReady)
		}
		var now condition.Condition
		rank := 0
		switch {
		case c == nil || c.Reason == crdv1.ReasonPending:
			now = condition.Unknown(crdv1.ReasonPending, fmt.Sprintf("The %s that route to Service %s/%s are getting their routes.", m.by, namespace, service))
			rank = 2
		case c.Status == string(metav1.ConditionTrue):
			return condition.True(c.Reason, c.Message), by[i]
		default:
			now = condition.Condition{Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message}
			if matched(said) {
				rank = 1
			}
		}
		if rank > best {
			f, leads, best = now, m, rank
		}
	}
	return f, leads
}

// matched reports whether a mesh has found an owner's object that routes to the Service.
func matched(route crdv1.MeshRoute) bool {
	switch o := route.(type) {
	case *crdv1.IstioRoute:
		return len(o.Status.MatchedVirtualServices) > 0
	case *crdv1.GatewayAPIRoute:
		return len(o.Status.MatchedObjects) > 0
	}
	return false
}

// governed reports whether nothing is derived from some of the owner's routes to a Service because a
// VirtualService takes precedence.
func governed(route crdv1.MeshRoute) bool {
	o, is := route.(*crdv1.GatewayAPIRoute)
	return is && slices.ContainsFunc(o.Status.MatchedObjects, func(m crdv1.MatchedObject) bool { return m.Status == gatewayapi.ReasonVirtualService })
}

// RoutedByMesh returns the workloads that need no sidecar, since meshes route their requests: for each
// of their Services a mesh route is ready and applies within the mesh. That is so for VirtualServices,
// and for HTTPRoutes and GRPCRoutes with a Service as a parent; those of Gateways do not see requests
// between workloads.
func RoutedByMesh(all []crdv1.MeshRoute) map[inject.Workload]bool {
	type service struct {
		of                      inject.Workload
		key, namespace, service string
	}
	led := map[service]bool{}
	for _, route := range all {
		maker := metav1.GetControllerOfNoCopy(route)
		if maker == nil || maker.APIVersion != crdv1.APIVersion || maker.Kind != crdv1.KindRoutingConfig {
			continue
		}
		asked := route.Asked()
		of := asked.Managed.Baseline.WorkloadRef
		w := inject.Workload{Kind: baseline.RoutedKind(crdv1.ObjectRef{Kind: of.Kind}), Namespace: of.Namespace, Name: of.Name}
		s := service{w, asked.RoutingKey, asked.Managed.Namespace, asked.Managed.TargetService}
		ready := crdv1.FindCondition(*route.StatusConditions(), crdv1.ConditionReady)
		led[s] = led[s] || ready != nil && ready.Status == string(metav1.ConditionTrue) && route.Observed() >= route.GetGeneration() && withinMesh(route)
	}
	routed := map[inject.Workload]bool{}
	for s, is := range led {
		before, known := routed[s.of]
		routed[s.of] = is && (before || !known)
	}
	return routed
}

// withinMesh reports whether a ready mesh route applies to requests within the mesh.
func withinMesh(route crdv1.MeshRoute) bool {
	o, is := route.(*crdv1.GatewayAPIRoute)
	return !is || slices.ContainsFunc(o.Status.MatchedObjects, crdv1.MatchedObject.WithinMesh)
}
