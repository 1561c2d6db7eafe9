package forkedworkload

import (
	corev1 "k8s.io/api/core/v1"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/publish"
)

// Observed gives the fact that the fork exists and how it is reached; w has the
// status that Conclude gave. False as long as no baseline was ever seen, or a
// Service that is wanted has no address yet: a fact with half of the Services
// would send the other half of the requests to the baseline. A Service that is
// refused is stated by its name, without an address: its requests fail.
func Observed(w *crdv1.ForkedWorkload, d Decision, made Made) (event.Fact, bool) {
	fact, ok := member.Observed(w)
	if !ok || w.Status.RoutingConfig == nil {
		return event.Fact{}, false
	}
	fact.Ready = serves(made.Fork)
	for _, m := range d.Services {
		have := made.Services[m.From]
		if have == nil && made.ServiceRefusals[m.From] != nil {
			have = m.Service
		} else if m.Service != nil && !reachable(have) {
			return event.Fact{}, false
		}
		if have != nil {
			fact.Services = append(fact.Services, pair(m.From, m.Ports, have))
		}
	}
	return event.Fact{Key: key(w.Namespace, w.Name), Cause: publish.CauseOf(crdv1.KindForkedWorkload, w), Data: fact}, true
}

// key is the key of facts about a ForkedWorkload.
func key(namespace, name string) event.Key {
	return member.Key(crdv1.KindForkedWorkload, namespace, name)
}

// pair says which Service stands for a baseline Service.
func pair(from string, ports []crdv1.MappedPort, to *corev1.Service) *factv1.ServicePair {
	p := &factv1.ServicePair{From: from, To: to.Name, ClusterIp: to.Spec.ClusterIP}
	for _, port := range ports {
		p.Ports = append(p.Ports, &factv1.PortPair{Port: uint32(port.Port), WorkloadPort: uint32(port.TargetPort)})
	}
	return p
}
