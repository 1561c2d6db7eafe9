package services

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	crdv1 "switchyard.dev/protos/crd/v1"
	routesv1 "switchyard.dev/protos/gen/routes"
)

// byService sorts EndpointSlices by the Service that they belong to, and those
// of one Service by name.
func byService(all []*discoveryv1.EndpointSlice) map[types.NamespacedName][]*discoveryv1.EndpointSlice {
	out := map[types.NamespacedName][]*discoveryv1.EndpointSlice{}
	for _, s := range all {
		if service := s.Labels[discoveryv1.LabelServiceName]; service != "" && len(s.Endpoints) > 0 {
			name := types.NamespacedName{Namespace: s.Namespace, Name: service}
			out[name] = append(out[name], s)
		}
	}
	for _, of := range out {
		slices.SortFunc(of, func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
	}
	return out
}

// hosts returns the hosts behind a headless Service that have their own names, as in the cluster's
// DNS: <hostname>.<service>.<namespace>.svc, with the address of the pod and the ports on which it
// listens. Of a host with addresses of two families, the one of the Service's first family is used.
// Several pods with one hostname are separate hosts.
func hosts(s *corev1.Service, of []*discoveryv1.EndpointSlice) []*routesv1.ClusterService {
	var out []*routesv1.ClusterService
	known := map[string]discoveryv1.AddressType{} // the family in which a hostname is given
	for _, family := range families(s) {
		addresses := map[string]bool{} // an endpoint that moves is in two slices for a moment
		for _, slice := range of {
			for _, e := range slice.Endpoints {
				if slice.AddressType != family || !addressable(e) || addresses[e.Addresses[0]] {
					continue
				}
				if in, ok := known[*e.Hostname]; ok && in != family {
					continue
				}
				known[*e.Hostname], addresses[e.Addresses[0]] = family, true
				out = append(out, &routesv1.ClusterService{
					ServiceIp:   e.Addresses[0],
					Hostname:    *e.Hostname + "." + hostname(s.Namespace, s.Name),
					Ports:       endpointPorts(slice.Ports),
					SandboxInfo: sandboxInfo(s.Annotations),
				})
			}
		}
	}
	return out
}

// families returns the address families in the order in which the Service has
// them; one that names none may have either.
func families(s *corev1.Service) []discoveryv1.AddressType {
	var out []discoveryv1.AddressType
	for _, f := range append(slices.Clone(s.Spec.IPFamilies), corev1.IPv4Protocol, corev1.IPv6Protocol) {
		if family := discoveryv1.AddressType(f); !slices.Contains(out, family) {
			out = append(out, family)
		}
	}
	return out
}

// addressable reports whether the cluster's DNS has a name for this endpoint
// alone: it has a hostname, and it is ready, which an absent condition means too.
func addressable(e discoveryv1.Endpoint) bool {
	return e.Hostname != nil && *e.Hostname != "" && len(e.Addresses) > 0 &&
		(e.Conditions.Ready == nil || *e.Conditions.Ready)
}

func endpointPorts(ports []discoveryv1.EndpointPort) []*routesv1.ClusterServicePort {
	var out []*routesv1.ClusterServicePort
	for _, p := range ports {
		if p.Port == nil {
			continue // means every port
		}
		out = append(out, &routesv1.ClusterServicePort{
			Name: ptr.Deref(p.Name, ""), Port: uint32(*p.Port), Protocol: string(ptr.Deref(p.Protocol, "")), AppProtocol: ptr.Deref(p.AppProtocol, ""),
		})
	}
	return out
}

// annotationsRead are the annotations that Describe uses.
var annotationsRead = [...]string{crdv1.AnnotationRoutingKey, crdv1.AnnotationBaselineService}

// Describe returns the addressable names as messages of the routes API, sorted by hostname, then by
// address: each Service that has an address, and each host with its own name behind a headless one.
// A headless Service itself, which has no address, is omitted, and so is an ExternalName.
func Describe(services []*corev1.Service, endpoints []*discoveryv1.EndpointSlice) []*routesv1.ClusterService {
	behind := byService(endpoints)
	out := make([]*routesv1.ClusterService, 0, len(services))
	for _, s := range services {
		switch s.Spec.ClusterIP {
		case "": // ExternalName
		case corev1.ClusterIPNone:
			out = append(out, hosts(s, behind[types.NamespacedName{Namespace: s.Namespace, Name: s.Name}])...)
		default:
			out = append(out, describe(s))
		}
	}
	slices.SortFunc(out, func(a, b *routesv1.ClusterService) int {
		return cmp.Or(cmp.Compare(a.GetHostname(), b.GetHostname()), cmp.Compare(a.GetServiceIp(), b.GetServiceIp()))
	})
	return out
}

func describe(s *corev1.Service) *routesv1.ClusterService {
	out := &routesv1.ClusterService{
		ServiceIp:   s.Spec.ClusterIP,
		Hostname:    hostname(s.Namespace, s.Name),
		SandboxInfo: sandboxInfo(s.Annotations),
	}
	for _, p := range s.Spec.Ports {
		out.Ports = append(out.Ports, &routesv1.ClusterServicePort{
			Name: p.Name, Port: uint32(p.Port), Protocol: string(p.Protocol), AppProtocol: ptr.Deref(p.AppProtocol, ""),
		})
	}
	return out
}

// sandboxInfo is nil for a Service that no sandbox made.
func sandboxInfo(annotations map[string]string) *routesv1.SandboxedClusterService {
	key := annotations[crdv1.AnnotationRoutingKey]
	namespace, name, ok := strings.Cut(annotations[crdv1.AnnotationBaselineService], "/")
	if key == "" || !ok {
		return nil
	}
	return &routesv1.SandboxedClusterService{SandboxRoutingKey: key, BaselineHostname: hostname(namespace, name)}
}

func hostname(namespace, name string) string { return name + "." + namespace + ".svc" }
