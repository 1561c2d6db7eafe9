package externalworkload

import (
	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/member"
)

// Fact returns the fact about an external workload; w has the status that Conclude returned. The fact is
// withdrawn from the log if the external workload has no baseline, and so takes no requests, or if the
// pods of its baseline are not known: the log may still have the fact of a previous object of that name or
// of a previous baseline. Fact returns false while a wanted Service has no address yet
// (member.Made.Pairs).
func Fact(w *crdv1.SignadotExternalWorkload, d Decision, made Made) (event.Fact, bool) {
	fact, ok := member.Observed(w)
	if !ok || w.Status.RoutingConfig == nil {
		return member.Withdrawn(w), true
	}
	fact.Ready = d.Tunnel.Connected.IsTrue()
	fact.Tunnel = &factv1.Tunnel{Connected: d.Tunnel.Connected.IsTrue()}
	if d.Tunnel.Address.IsValid() {
		fact.Tunnel.ProxyPod, fact.Tunnel.ProxyIp = d.Tunnel.Pod, d.Tunnel.Address.String()
	}
	if fact.Services, ok = made.Pairs(d.Services); !ok {
		return event.Fact{}, false
	}
	return member.Fact(w, fact), true
}
