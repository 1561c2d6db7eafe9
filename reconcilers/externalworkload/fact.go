package externalworkload

import (
	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/member"
)

// Fact returns the fact about an external workload; w has the status that Conclude
// gave. One without baseline takes no requests, and of one of whose baseline it is not
// known what its pods are there is nothing to say: they are gone from the log, where a
// former one of the name, or what held for a former baseline, may be. False while a
// Service that is wanted has no address yet (member.Made.Pairs).
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
