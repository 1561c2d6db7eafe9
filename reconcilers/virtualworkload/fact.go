package virtualworkload

import (
	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/member"
)

// Observed returns the fact about a virtual workload with the status that Conclude returned: its key is in
// use for the baseline, or, while the pod template of the baseline is not known, the withdrawal.
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
