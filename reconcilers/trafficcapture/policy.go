package trafficcapture

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// Refuses reports whether a NetworkPolicy of a fork allows some requests to a port of its application, and not those to the
// container that records them. A named port counts as the application's.
func Refuses(p networkingv1.NetworkPolicySpec, of []crdv1.CapturedPort) bool {
	return slices.ContainsFunc(p.Ingress, func(rule networkingv1.NetworkPolicyIngressRule) bool {
		return len(rule.Ports) > 0 && slices.ContainsFunc(of, func(port crdv1.CapturedPort) bool {
			return allows(rule.Ports, port.Application) && !allows(rule.Ports, port.Listening)
		})
	})
}

// allows reports whether a rule may be for a port: by its number, its range, or a name, which no listening port has.
func allows(all []networkingv1.NetworkPolicyPort, number int32) bool {
	return slices.ContainsFunc(all, func(p networkingv1.NetworkPolicyPort) bool {
		switch {
		case p.Protocol != nil && *p.Protocol != corev1.ProtocolTCP:
			return false
		case p.Port == nil:
			return true
		case p.Port.Type == intstr.String:
			return false
		case p.EndPort != nil:
			return p.Port.IntVal <= number && number <= *p.EndPort
		}
		return p.Port.IntVal == number
	})
}
