package virtualworkload

import (
	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/publish"
)

// Observed gives the fact about a virtual workload with the status that Conclude gave:
// that its key is held for the baseline, or, when that was never seen, that it is not.
func Observed(w *crdv1.VirtualWorkload) event.Fact {
	fact, ok := member.Observed(w)
	if !ok {
		return member.Withdrawn(w)
	}
	// Its destination is the baseline, and whether that serves is between it and its
	// clients.
	fact.Ready = true
	for _, s := range w.Status.RoutingConfig.Services {
		pair := &factv1.ServicePair{From: s.From}
		for _, p := range s.Ports {
			pair.Ports = append(pair.Ports, &factv1.PortPair{Port: uint32(p.Port), WorkloadPort: uint32(p.TargetPort)})
		}
		fact.Services = append(fact.Services, pair)
	}
	return event.Fact{
		Key: member.Key(crdv1.KindVirtualWorkload, w.Namespace, w.Name), Cause: publish.CauseOf(crdv1.KindVirtualWorkload, w), Data: fact,
	}
}
