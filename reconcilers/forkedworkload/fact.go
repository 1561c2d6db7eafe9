package forkedworkload

import (
	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/member"
)

// Observed returns the fact that the fork exists and how it is reached; w has the
// status that Conclude gave. False as long as it is not known what the pods of the
// baseline are, or a Service that is wanted has no address yet (member.Made.Pairs).
//
// A fact without Services says that no Service leads to the baseline, which is why it is
// not stated before that is known. Until then status.routingConfig is not there either,
// by which RoutingConfigs and sandboxes know that the member has not said yet how it is
// reached: they are not ready for that.
func Observed(w *crdv1.ForkedWorkload, d Decision, made Made) (event.Fact, bool) {
	fact, ok := member.Observed(w)
	if !ok || w.Status.RoutingConfig == nil {
		return event.Fact{}, false
	}
	fact.Ready = serves(made.Fork)
	if fact.Services, ok = made.Pairs(d.Services); !ok {
		return event.Fact{}, false
	}
	return member.Fact(w, fact), true
}

// Fact returns the fact about the fork: what Observed gives, or that it is gone from the
// log while it is not known what the pods of its baseline are, since the log may say what
// held for a former fork of its name, or a former baseline. False when there is nothing to
// state now.
func Fact(w *crdv1.ForkedWorkload, d Decision, made Made) (event.Fact, bool) {
	if w.Status.Baseline == nil || w.Status.RoutingConfig == nil {
		return member.Withdrawn(w), true
	}
	return Observed(w, d, made)
}
