// Package decision finds the MeshRoute that decides a request within a mesh, and the object of the
// mesh by which it does.
//
//	Of             the decision about a request               decision.go
//	virtualService the VirtualService that Istio uses         virtualservice.go
//	winners        the routes of a Service that take it       gatewayapi.go
package decision

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/meshes/istio"
	"switchyard.dev/reconcilers/meshes/istioadapter"
	"switchyard.dev/reconcilers/meshes/precedence"
)

// Request is a request from a workload of the mesh with a routing key.
type Request struct {
	// Service is the Service that the request names; zero means any Service of the workload.
	Service types.NamespacedName
	// Port is the port of the Service, and WorkloadPort the port of the workload; 0 means any.
	Port, WorkloadPort int32
	// Request has the path, method, query and headers. The host is ignored: it is that of the
	// Service.
	precedence.Request
}

// Objects are the objects of the mesh that can be read.
type Objects struct {
	VirtualServices []*unstructured.Unstructured
	HTTPRoutes      []gatewayv1.HTTPRoute
	GRPCRoutes      []gatewayv1.GRPCRoute
	// Order is the precedence of the HTTPRoutes and GRPCRoutes.
	Order precedence.Order
}

// Decision is the effect of the mesh on a request.
type Decision struct {
	// By names the MeshRoutes and the objects of the mesh that route the request to the sandbox; empty
	// if it is not routed there.
	By string
	// Lost is why the request is not routed to the sandbox, and Remedy what to do about it. Both are
	// empty if it is routed there, or if nothing is known.
	Lost, Remedy string
}

// Of returns the Decision about a request. all are the MeshRoutes of its routing key and workload; those
// not owned by a RoutingConfig are ignored. If the request names no Service, By is set only if all
// Services of the workload are routed.
func Of(all []crdv1.MeshRoute, q Request, objects Objects) Decision {
	var by []string
	services := servicesOf(all, q)
	for _, id := range slices.SortedFunc(maps.Keys(services), byName) {
		d := services[id].decide(id, q, objects)
		if d.By == "" {
			return d
		}
		if !slices.Contains(by, d.By) {
			by = append(by, d.By)
		}
	}
	return Decision{By: strings.Join(by, " and ")}
}

// service has the MeshRoutes of a Service. Each can be nil.
type service struct {
	istio      *crdv1.IstioRoute
	gatewayAPI *crdv1.GatewayAPIRoute
}

// servicesOf returns the Services that a request can be sent to, with their MeshRoutes.
func servicesOf(all []crdv1.MeshRoute, q Request) map[types.NamespacedName]service {
	out, named := map[types.NamespacedName]service{}, false
	for _, r := range all {
		maker, managed := metav1.GetControllerOfNoCopy(r), r.Asked().Managed
		ported := q.WorkloadPort == 0 || slices.ContainsFunc(managed.Mappings, func(m crdv1.IstioPortMapping) bool { return m.WorkloadPort == q.WorkloadPort })
		if maker == nil || maker.APIVersion != crdv1.APIVersion || maker.Kind != crdv1.KindRoutingConfig || !ported {
			continue
		}
		id := types.NamespacedName{Namespace: managed.Namespace, Name: managed.TargetService}
		s := out[id]
		switch r := r.(type) {
		case *crdv1.IstioRoute:
			s.istio = r
		case *crdv1.GatewayAPIRoute:
			s.gatewayAPI = r
		}
		out[id] = s
		named = named || id == q.Service
	}
	if named {
		return map[types.NamespacedName]service{q.Service: out[q.Service]}
	}
	return out
}

// decide returns the Decision about a request for a Service. HTTPRoutes and GRPCRoutes have no effect
// if a VirtualService routes the host of the Service.
func (s service) decide(id types.NamespacedName, q Request, objects Objects) Decision {
	if s.istio != nil && (s.gatewayAPI == nil || decides(s.istio)) {
		return s.byIstio(id, objects)
	}
	return s.byGatewayAPI(id, q, objects)
}

// decides reports whether a VirtualService routes requests within the mesh to the host of the
// Service of an IstioRoute.
func decides(r *crdv1.IstioRoute) bool {
	if len(r.Status.MatchedVirtualServices) == 0 {
		return false
	}
	ready := crdv1.FindCondition(r.Status.Conditions, crdv1.ConditionReady)
	return ready == nil || ready.Reason != istio.ReasonHostNotRouted && ready.Reason != istio.ReasonNoVirtualService && ready.Reason != istioadapter.ReasonNoVirtualServices
}

func (s service) byIstio(id types.NamespacedName, objects Objects) Decision {
	if lost, remedy := notReady(s.istio, crdv1.KindIstioRoute); lost != "" {
		return Decision{Lost: lost, Remedy: remedy}
	}
	var applied []types.NamespacedName
	for _, m := range s.istio.Status.MatchedVirtualServices {
		if m.Status == istio.StatusApplied {
			applied = append(applied, types.NamespacedName{Namespace: m.Namespace, Name: m.Name})
		}
	}
	if one, found := virtualService(objects.VirtualServices, applied, id); found {
		applied = []types.NamespacedName{one}
	}
	names := lists.Map(applied, func(of types.NamespacedName) string { return "VirtualService " + of.String() })
	return named(crdv1.KindIstioRoute, s.istio.Name, names)
}

func (s service) byGatewayAPI(id types.NamespacedName, q Request, objects Objects) Decision {
	if lost, remedy := notReady(s.gatewayAPI, crdv1.KindGatewayAPIRoute); lost != "" {
		return Decision{Lost: lost, Remedy: remedy}
	}
	var derived []string
	for _, m := range s.gatewayAPI.Status.MatchedObjects {
		if m.WithinMesh() {
			derived = append(derived, m.Derived.String())
		}
	}
	if derived == nil {
		return Decision{
			Lost:   fmt.Sprintf("%s %s has routes of Gateways alone, and none for requests within the mesh to Service %s", crdv1.KindGatewayAPIRoute, s.gatewayAPI.Name, id),
			Remedy: fmt.Sprintf("Create an HTTPRoute with Service %s as its parent.", id),
		}
	}
	winners := objects.winners(id, q)
	if other := slices.IndexFunc(winners, func(w string) bool { return !slices.Contains(derived, w) }); other >= 0 {
		return Decision{
			Lost:   fmt.Sprintf("%s has precedence for %s, and is not derived for the sandbox", winners[other], q.at(id).Request),
			Remedy: fmt.Sprintf("See the matches of %s and of %s.", winners[other], strings.Join(derived, ", ")),
		}
	}
	if len(winners) > 0 {
		derived = winners
	}
	return named(crdv1.KindGatewayAPIRoute, s.gatewayAPI.Name, derived)
}

// named returns the Decision that a MeshRoute routes by objects of the mesh; the zero Decision without any.
func named(kind, name string, objects []string) Decision {
	if len(objects) == 0 {
		return Decision{}
	}
	return Decision{By: fmt.Sprintf("%s %s (%s)", kind, name, strings.Join(objects, ", "))}
}

// notReady returns why a MeshRoute does not route requests and the remedy, both empty if it is ready.
func notReady(r crdv1.MeshRoute, kind string) (why, remedy string) {
	ready := crdv1.FindCondition(*r.StatusConditions(), crdv1.ConditionReady)
	switch {
	case ready == nil || r.Observed() < r.GetGeneration():
		return fmt.Sprintf("%s %s has no report yet", kind, r.GetName()), "Ask again in a moment."
	case ready.Status != string(metav1.ConditionTrue):
		return fmt.Sprintf("%s %s is not ready (%s)", kind, r.GetName(), ready.Reason), ready.Message
	}
	return "", ""
}

func byName(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// clusterDomain is appended to short hosts before they are compared. Any domain would do for the
// comparison.
const clusterDomain = "cluster.local"

// virtualService returns the VirtualService, of those named by among, that Istio uses for requests
// within the mesh to the host of a Service: the one with the most specific host, of several the oldest.
// It returns false if none has such a host, which is the case for delegates.
func virtualService(all []*unstructured.Unstructured, among []types.NamespacedName, service types.NamespacedName) (types.NamespacedName, bool) {
	var best *unstructured.Unstructured
	host := ""
	for _, o := range all {
		gateways, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "gateways")
		within := len(gateways) == 0 || slices.Contains(gateways, "mesh")
		if of := hostFor(o, service); within && of != "" && slices.Contains(among, nameOf(o)) && (best == nil || cmp.Or(
			compareHosts(of, host), o.GetCreationTimestamp().Compare(best.GetCreationTimestamp().Time), byName(nameOf(o), nameOf(best))) < 0) {
			best, host = o, of
		}
	}
	if best == nil {
		return types.NamespacedName{}, false
	}
	return nameOf(best), true
}

func nameOf(o *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// hostFor returns the most specific host of a VirtualService that applies to a Service; empty for none.
func hostFor(o *unstructured.Unstructured, service types.NamespacedName) (best string) {
	hosts, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "hosts")
	full := istio.Resolve(service.Name, service.Namespace, clusterDomain)
	for _, h := range hosts {
		h = istio.Resolve(strings.ToLower(h), o.GetNamespace(), clusterDomain)
		end, wild := strings.CutPrefix(h, "*")
		if (h == full || wild && strings.HasSuffix(full, end)) && (best == "" || compareHosts(h, best) < 0) {
			best = h
		}
	}
	return best
}

// compareHosts is negative if a is the more specific host: without a wildcard, then longer.
func compareHosts(a, b string) int {
	wild := func(h string) int { return strings.Count(h, "*") }
	return cmp.Or(cmp.Compare(wild(a), wild(b)), cmp.Compare(len(b), len(a)))
}

// at returns the request with the host of a Service.
func (q Request) at(service types.NamespacedName) Request {
	q.Host = istio.Resolve(service.Name, service.Namespace, clusterDomain)
	return q
}

// winners returns the routes that handle a request to a Service, one for each namespace with routes
// for it: those in the Service's namespace apply to all clients, others to clients in their namespace.
func (o Objects) winners(service types.NamespacedName, q Request) (out []string) {
	routes := map[string][]precedence.Route{}
	for i := range o.HTTPRoutes {
		if r := &o.HTTPRoutes[i]; q.asks(r.Spec.ParentRefs, r.Namespace, service) {
			routes[r.Namespace] = append(routes[r.Namespace], precedence.OfHTTP(r))
		}
	}
	for i := range o.GRPCRoutes {
		if r := &o.GRPCRoutes[i]; q.asks(r.Spec.ParentRefs, r.Namespace, service) {
			routes[r.Namespace] = append(routes[r.Namespace], precedence.OfGRPC(r))
		}
	}
	for _, in := range routes {
		for i := range in {
			in[i].Hostnames = nil // Meshes ignore them.
		}
		if at, found := o.Order.Winner(in, q.at(service).Request); found {
			out = append(out, in[at.Route].String())
		}
	}
	slices.Sort(out)
	return out
}

// asks reports whether a route of a namespace has a Service as a parent, for the port of the request.
func (q Request) asks(parents []gatewayv1.ParentReference, namespace string, service types.NamespacedName) bool {
	return slices.ContainsFunc(parents, func(p gatewayv1.ParentReference) bool {
		return ptr.Deref(p.Group, gatewayv1.GroupName) == "" && ptr.Deref(p.Kind, "") == "Service" &&
			string(p.Name) == service.Name && string(ptr.Deref(p.Namespace, gatewayv1.Namespace(namespace))) == service.Namespace &&
			(p.Port == nil || q.Port == 0 || int32(*p.Port) == q.Port)
	})
}
