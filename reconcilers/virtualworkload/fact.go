package virtualworkload

import (
	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/member"
)

// Observed returns the fact about a virtual workload with the status that Conclude gave:
// that its key is held for the baseline, or, while it is not known what the pods of that
// are, that it is not.
func Observed(w *crdv1.VirtualWorkload) event.Fact {
	fact, ok := member.Observed(w)
	if !ok {
		return member.Withdrawn(w)
	}
	// Its destination is the baseline, and whether that serves is between it and its
	// clients.
	fact.Ready = true
	for _, s := range w.Status.RoutingConfig.Services {
		fact.Services = append(fact.Services, member.Pair(s.From, s.Ports, nil))
	}
	return member.Fact(w, fact)
}
