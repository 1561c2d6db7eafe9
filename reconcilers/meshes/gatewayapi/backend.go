package gatewayapi

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
)

const kindService = "Service"

// serviceOf returns the Service that a backend refers to; false if it refers to another kind.
func serviceOf(ref *gatewayv1.BackendRef, namespace string) (types.NamespacedName, bool) {
	name := types.NamespacedName{Namespace: string(ptr.Deref(ref.Namespace, gatewayv1.Namespace(namespace))), Name: string(ref.Name)}
	return name, ptr.Deref(ref.Group, "") == "" && ptr.Deref(ref.Kind, kindService) == kindService
}

// managing returns the Managed for the Service of a backend under the group's key; nil if there is none.
func (g *group) managing(ref *gatewayv1.BackendRef, namespace string) *Managed {
	service, is := serviceOf(ref, namespace)
	if !is {
		return nil
	}
	return g.managedBy(service.Namespace, service.Name)
}

// standIn returns the Service that replaces a managed Service on a port; "" if the port is not mapped.
func (m *Managed) standIn(port *gatewayv1.PortNumber) string {
	return lists.First(m.Mappings, func(mapping crdv1.IstioPortMapping) bool { return port != nil && mapping.FromPort == int32(*port) }).ToService
}

// governed returns the VirtualService that governs a managed Service, or "".
func (g *group) governed(m *Managed) string { return g.in.VirtualServices[m.service()] }

// replace replaces backends that are managed Services with the Services of the sandbox, in place.
func (g *group) replace(namespace string, backends []*gatewayv1.BackendRef) {
	for _, ref := range backends {
		if m := g.managing(ref, namespace); m != nil && g.governed(m) == "" && m.standIn(ref.Port) != "" {
			ref.Name = gatewayv1.ObjectName(m.standIn(ref.Port))
		}
	}
}

// leading returns the managed Services among the backends of a rule that are to be replaced, and adds
// findings about its backends.
func (g *group) leading(baseline Object, meta *metav1.ObjectMeta, rule int, backends []*gatewayv1.BackendRef) []*Managed {
	var out []*Managed
	var others []string
	for i, ref := range backends {
		at := fmt.Sprintf("rules[%d].backendRefs[%d] of %s", rule, i, baseline)
		m := g.managing(ref, baseline.Namespace)
		switch {
		case m == nil || !g.usable(baseline, meta, m, at, ref):
			if ptr.Deref(ref.Weight, 1) > 0 {
				others = append(others, string(ref.Name))
			}
		default:
			out = append(out, m)
			g.checkStandIn(baseline, m, at, ref)
		}
	}
	for _, m := range out {
		g.checkOthers(baseline, m, rule, backends)
		if others != nil {
			g.note(m, baseline, ReasonPartOfRequests, false, "rules[%d] of %s sends a part of its requests to %s, those with the key as well.", rule, baseline, list(others))
		}
	}
	return out
}

// usable reports whether a backend that is a managed Service can be replaced. If not, it adds a finding
// with the reason.
func (g *group) usable(baseline Object, meta *metav1.ObjectMeta, m *Managed, at string, ref *gatewayv1.BackendRef) bool {
	virtualService := g.governed(m)
	switch {
	case meta.Annotations[crdv1.AnnotationIgnore] == "true":
		g.note(m, baseline, ReasonIgnored, false, "%s has the annotation %s, so nothing is derived from it.", baseline, crdv1.AnnotationIgnore)
	case virtualService != "":
		g.note(m, baseline, ReasonVirtualService, true, "VirtualService %s governs Service %s, so nothing is derived from %s for it. Route to the Service with one of the two.", virtualService, m.service(), baseline)
	case g.missing(ref, baseline.Namespace) != "":
		g.note(m, baseline, ReasonBackendNotFound, true, "%s refers to %s, which does not exist. Let the route refer to a port that the Service has.", at, g.missing(ref, baseline.Namespace))
	case m.standIn(ref.Port) == "":
		g.note(m, baseline, ReasonPortNotMapped, true, "%s refers to port %s of Service %s, for which sandbox %s has no Service. Requests with the key stay with the baseline there; use a port that the workload of the sandbox serves.",
			at, portOf(ref), m.service(), m.Sandbox)
	default:
		return true
	}
	return false
}

func portOf(ref *gatewayv1.BackendRef) string {
	if ref.Port == nil {
		return "(none)"
	}
	return fmt.Sprint(*ref.Port)
}

// missing returns the Service or port of a backend that does not exist; "" if it exists or is not known.
func (w *world) missing(ref *gatewayv1.BackendRef, namespace string) string {
	service, is := serviceOf(ref, namespace)
	if !is || w.ports == nil {
		return ""
	}
	ports, found := w.ports[service]
	switch {
	case !found:
		return "Service " + service.String()
	case ref.Port == nil || !slices.Contains(ports, int32(*ref.Port)):
		return "port " + portOf(ref) + " of Service " + service.String()
	}
	return ""
}

// checkStandIn adds a finding if the Service that replaces a backend does not exist, or if no
// ReferenceGrant permits the reference to it.
func (g *group) checkStandIn(baseline Object, m *Managed, at string, ref *gatewayv1.BackendRef) {
	derived := ref.DeepCopy()
	derived.Name = gatewayv1.ObjectName(m.standIn(ref.Port))
	if missing := g.missing(derived, baseline.Namespace); missing != "" {
		g.note(m, baseline, ReasonBackendNotFound, true, "%s, which replaces %s in sandbox %s, does not exist. Requests with the key fail until it does.", missing, at, m.Sandbox)
	}
	service, _ := serviceOf(derived, baseline.Namespace)
	if service.Namespace == baseline.Namespace || g.permitted(baseline, service) {
		return
	}
	g.note(m, baseline, ReasonNotPermitted, true, "No ReferenceGrant in namespace %s lets the route that is derived from %s refer to Service %s, so requests with the key fail. Add one, such as:\n%s",
		service.Namespace, baseline, service.Name, g.grantFor(baseline, service))
}

// checkOthers adds findings about backends of a rule that are not managed and do not exist.
func (g *group) checkOthers(baseline Object, m *Managed, rule int, backends []*gatewayv1.BackendRef) {
	for i, ref := range backends {
		if missing := g.missing(ref, baseline.Namespace); missing != "" && g.managing(ref, baseline.Namespace) == nil {
			g.note(m, baseline, ReasonBackendNotFound, false, "rules[%d].backendRefs[%d] of %s refers to %s, which does not exist. Its part of the requests fails, those with the key as well.", rule, i, baseline, missing)
		}
	}
}

// permitted reports whether a ReferenceGrant lets routes such as the baseline refer to a
// Service of another namespace.
func (w *world) permitted(baseline Object, service types.NamespacedName) bool {
	return slices.ContainsFunc(w.in.Grants, func(g *gatewayv1.ReferenceGrant) bool {
		return g.Namespace == service.Namespace &&
			slices.ContainsFunc(g.Spec.From, func(f gatewayv1.ReferenceGrantFrom) bool {
				return f.Group == gatewayv1.GroupName && string(f.Kind) == baseline.Kind && string(f.Namespace) == baseline.Namespace
			}) &&
			slices.ContainsFunc(g.Spec.To, func(t gatewayv1.ReferenceGrantTo) bool {
				return t.Group == "" && t.Kind == kindService && string(ptr.Deref(t.Name, gatewayv1.ObjectName(service.Name))) == service.Name
			})
	})
}

// ServicesNamed returns the Services that backends of routes refer to, whether they exist or not, each
// with the ports that backends name; 0 for a backend without a port.
func ServicesNamed(routes Routes) map[types.NamespacedName][]int32 {
	out := map[types.NamespacedName][]int32{}
	for _, r := range routes.HTTP {
		addNamed(out, &httpRoutes, r)
	}
	for _, r := range routes.GRPC {
		addNamed(out, &grpcRoutes, r)
	}
	return out
}

func addNamed[Route, Rule, Match any](to map[types.NamespacedName][]int32, k *kind[Route, Rule, Match], r *Route) {
	rules := k.rules(r)
	for i := range rules {
		for _, b := range k.backends(&rules[i]) {
			if service, is := serviceOf(b, k.meta(r).Namespace); is {
				to[service] = append(to[service], int32(ptr.Deref(b.Port, 0)))
			}
		}
	}
}
