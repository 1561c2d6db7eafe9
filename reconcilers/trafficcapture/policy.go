package trafficcapture

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/fork/power"
)

// Refusing returns the name of a NetworkPolicy that allows some connections to the application of a fork and not those to the
// container that records: by ingress of the fork, or by egress of its baseline, of which the sidecars call the fork. Empty: there
// is none. Peers are not compared, except those of all pods, and pods of the same namespace that are not the fork's.
func Refusing(all []networkingv1.NetworkPolicy, fork, baseline corev1.PodTemplateSpec, of []crdv1.CapturedPort) string {
	var in, out []rule
	for _, p := range all {
		if selects(&p.Spec.PodSelector, fork.Labels) {
			in = append(in, lists.Map(p.Spec.Ingress, func(r networkingv1.NetworkPolicyIngressRule) rule { return rule{p.Name, r.From, r.Ports} })...)
		}
		if selects(&p.Spec.PodSelector, baseline.Labels) {
			out = append(out, lists.Map(p.Spec.Egress, func(r networkingv1.NetworkPolicyEgressRule) rule { return rule{p.Name, r.To, r.Ports} })...)
		}
	}
	out = lists.Filter(out, func(r rule) bool {
		return len(r.peers) == 0 || slices.ContainsFunc(r.peers, func(p networkingv1.NetworkPolicyPeer) bool {
			return p.NamespaceSelector != nil || p.PodSelector == nil || selects(p.PodSelector, fork.Labels)
		})
	})
	for _, rules := range [][]rule{in, out} {
		for _, port := range of {
			if slices.ContainsFunc(rules, func(r rule) bool { return len(r.peers) == 0 && r.allows(port.Listening, fork.Spec) }) {
				continue // It allows all connections.
			}
			for _, r := range rules {
				if r.allows(port.Application, fork.Spec) && !r.allows(port.Listening, fork.Spec) {
					return r.policy
				}
			}
		}
	}
	return ""
}

// rule is one of a policy. Without peers it is for all, and without ports for all.
type rule struct {
	policy string
	peers  []networkingv1.NetworkPolicyPeer
	ports  []networkingv1.NetworkPolicyPort
}

// allows reports whether a rule is for a TCP port of a pod: by its number, its range, or the name that a container gives it.
func (r rule) allows(number int32, pod corev1.PodSpec) bool {
	return len(r.ports) == 0 || slices.ContainsFunc(r.ports, func(p networkingv1.NetworkPolicyPort) bool {
		switch {
		case p.Protocol != nil && *p.Protocol != corev1.ProtocolTCP:
			return false
		case p.Port == nil:
			return true
		case p.Port.Type == intstr.String:
			return slices.ContainsFunc(power.Containers(pod), func(c power.Container) bool {
				return slices.ContainsFunc(c.Ports, func(d corev1.ContainerPort) bool { return d.Name == p.Port.StrVal && d.ContainerPort == number })
			})
		case p.EndPort != nil:
			return p.Port.IntVal <= number && number <= *p.EndPort
		}
		return p.Port.IntVal == number
	})
}

func selects(s *metav1.LabelSelector, pod map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && selector.Matches(labels.Set(pod))
}
