package routingconfig

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/condition"
)

// ConditionMiddlewaresApplied is a condition that we add to those of a RoutingConfig:
// requests pass the middlewares that its members ask for.
const ConditionMiddlewaresApplied = "MiddlewaresApplied"

// IsPublished reports, to whoever owns a RoutingConfig, whether what its spec says was accepted and
// is on the routing log.
func IsPublished(c *crdv1.RoutingConfig) condition.Condition {
	for _, t := range []string{crdv1.ConditionAccepted, crdv1.ConditionPublished} {
		have := crdv1.FindCondition(c.Status.Conditions, t)
		switch {
		case have == nil || have.ObservedGeneration < c.Generation:
			return condition.Unknown(crdv1.ReasonPending, "The declaration is not on the routing log yet.")
		case have.Status != string(metav1.ConditionTrue):
			return condition.False(have.Reason, have.Message)
		}
	}
	return condition.True("Stated", "The routing is on the routing log.")
}

// SidecarsReady says, for whoever owns a RoutingConfig, whether requests for the baseline of each
// of these members, which are all that it has, meet a sidecar that acts on its key. It
// is the condition of Ready, here and at the owner: once every proxy knows the key, a
// sidecar that is not ready takes nothing back. Its pod is not ready either, so no
// request meets it before it has all rules; pods start and go all day.
func SidecarsReady(c *crdv1.RoutingConfig, members []crdv1.Member) condition.Condition {
	in := inputOf(c, members)
	return sidecarsReady(in, proxiesCurrent(in))
}

// sidecarsReady is SidecarsReady where it is given whether every proxy knows the key.
func sidecarsReady(in Input, known condition.Condition) condition.Condition {
	lasting := known.IsTrue() && known.Reason != ReasonNotAwaited
	return overMembers(in, func(c *crdv1.StatusCondition) bool {
		return lasting && c.Reason == baseline.ReasonSidecarNotReady
	})
}

// sidecars reports whether requests for every member's baseline meet a ready sidecar in
// every pod.
func sidecars(in Input) condition.Condition {
	return overMembers(in, func(*crdv1.StatusCondition) bool { return false })
}

// overMembers repeats the first SidecarsReady of a member that is not True, unless it
// is passed over.
func overMembers(in Input, passed func(*crdv1.StatusCondition) bool) condition.Condition {
	var remarks []string
	led, unled := 0, 0
	for _, m := range members(in) {
		have := in.member(m)
		if have == nil || !takesRequests(have) {
			continue
		}
		c := crdv1.FindCondition(*have.StatusConditions(), baseline.ConditionSidecarsReady)
		if baseline.NeedsNone(have) {
			unled++
		} else {
			led++
		}
		switch {
		case c == nil:
			return condition.Unknown(crdv1.ReasonPending, fmt.Sprintf(
				"Waiting to know whether the baseline of %s %s/%s has sidecars.", m.Kind, m.Namespace, m.Name))
		case c.Status == string(metav1.ConditionTrue):
			if but := baseline.Caveat(have); but != "" {
				remarks = append(remarks, but)
			}
		case passed(c):
			remarks = append(remarks, "Except now: "+c.Message)
		default:
			return condition.Condition{Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message}
		}
	}
	var message string
	switch {
	case unled == 0:
		message = "Every pod of every baseline has a ready DevMesh Sidecar."
	case led > 0:
		message = "Every pod of every baseline that a Service leads to has a ready DevMesh Sidecar."
	}
	for _, remark := range remarks[:min(len(remarks), shownMembers)] {
		message += " " + remark
	}
	if n := len(remarks) - shownMembers; n > 0 {
		message += fmt.Sprintf(" And %d more of this kind.", n)
	}
	return condition.True("SidecarsReady", strings.TrimSpace(message))
}
