package services

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	crdv1 "switchyard.dev/protos/crd/v1"
	routesv1 "switchyard.dev/protos/gen/routes"
)

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
			Name: p.Name, Port: uint32(p.Port), Protocol: string(p.Protocol), AppProtocol: deref(p.AppProtocol),
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
