package services

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	routesv1 "switchyard.dev/protos/gen/routes"
)

// annotationsRead are those that Describe looks at.
var annotationsRead = [...]string{crdv1.AnnotationRoutingKey, crdv1.AnnotationBaselineService}

// Describe says Services in the words of the routes API, sorted by hostname.
// Those without an address of their own are left out.
func Describe(services []*corev1.Service) []*routesv1.ClusterService {
	out := make([]*routesv1.ClusterService, 0, len(services))
	for _, s := range services {
		if s.Spec.ClusterIP != "" && s.Spec.ClusterIP != corev1.ClusterIPNone {
			out = append(out, describe(s))
		}
	}
	slices.SortFunc(out, func(a, b *routesv1.ClusterService) int { return cmp.Compare(a.GetHostname(), b.GetHostname()) })
	return out
}

func describe(s *corev1.Service) *routesv1.ClusterService {
	out := &routesv1.ClusterService{
		ServiceIp:   s.Spec.ClusterIP,
		Hostname:    hostname(s.Namespace, s.Name),
		SandboxInfo: sandboxInfo(s.Annotations),
	}
	for _, p := range s.Spec.Ports {
		port := &routesv1.ClusterServicePort{Name: p.Name, Port: uint32(p.Port), Protocol: string(p.Protocol)}
		if p.AppProtocol != nil {
			port.AppProtocol = *p.AppProtocol
		}
		out.Ports = append(out.Ports, port)
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
