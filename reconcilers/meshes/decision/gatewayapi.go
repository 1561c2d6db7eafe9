package decision

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"switchyard.dev/reconcilers/meshes/istio"
	"switchyard.dev/reconcilers/meshes/precedence"
)

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
