package forkedworkload

import (
	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/member"
)

// Observed returns the fact that the fork exists, with its Services; w has the status that Conclude
// returned. It returns false while the pod template of the baseline is not known, or a wanted Service has
// no address yet (member.Made.Pairs).
//
// A fact without Services means that no Service selects the baseline, so it is not published before that
// is known. Until then status.routingConfig is empty too: RoutingConfigs and sandboxes take that as
// routing that is not determined yet, and are not ready.
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

// Fact returns the fact about the fork: that of Observed, or its withdrawal while the pod template of the
// baseline is not known, since the log may have the fact of a previous fork of that name or of a previous
// baseline. It returns false if there is nothing to publish now.
func Fact(w *crdv1.ForkedWorkload, d Decision, made Made) (event.Fact, bool) {
	if w.Status.Baseline == nil || w.Status.RoutingConfig == nil {
		return member.Withdrawn(w), true
	}
	return Observed(w, d, made)
}
