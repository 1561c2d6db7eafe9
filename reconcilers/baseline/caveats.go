package baseline

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// ReasonNoBaseline is the reason of conditions of an external workload that has no baseline.
// It is as the spec asks, and no caveat.
const ReasonNoBaseline = "NoBaseline"

// Caveats returns the conditions of a member that are True and contain a caveat: those with a
// reason that differs from their type. Ready repeats others and is left out. Of several
// conditions with the same reason it returns the first.
func Caveats(m crdv1.Conditioned) []crdv1.StatusCondition {
	var out []crdv1.StatusCondition
	for _, c := range *m.StatusConditions() {
		same := func(other crdv1.StatusCondition) bool { return other.Reason == c.Reason }
		if isCaveat(c) && c.ObservedGeneration >= m.GetGeneration() && !slices.ContainsFunc(out, same) {
			out = append(out, c)
		}
	}
	return out
}

func isCaveat(c crdv1.StatusCondition) bool {
	return c.Status == string(metav1.ConditionTrue) && c.Type != crdv1.ConditionReady &&
		!slices.Contains([]string{"", c.Type, ReasonNoBaseline}, c.Reason)
}
