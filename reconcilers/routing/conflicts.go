package routing

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/routeserver/table"
)

// ConditionNoConflicts is a condition that we add to those of a RoutingConfig, and of
// a SignadotRouteGroup: no two of its members stand for one baseline. While two do, the
// routing of all others works, so it does not count for Ready.
const ConditionNoConflicts = "NoConflicts"

// ReasonRoutingConflict: two members stand for one baseline.
const ReasonRoutingConflict = "RoutingConflict"

// Conflict says that two members of one routing key stand for one baseline. The one
// whose object is older holds it, of two equally old ones the first by namespace and
// name: the rule of the routing table (table.Claimant).
type Conflict struct {
	// Baseline is whose requests they both take.
	Baseline crdv1.ObjectRef
	// Holder gets the requests; Loser would, if the holder went away.
	Holder, Loser crdv1.SandboxedWorkloadRef
}

// String returns the sentence of a condition, with what to do.
func (c Conflict) String() string {
	return fmt.Sprintf("%s and %s both represent %s. Sandbox %q gets the requests, since its member is older, or first by name where both are as old: take one of the two sandboxes away from this routing key, or the workload out of one of them",
		whose(c.Holder), whose(c.Loser), baseline.Describe(c.Baseline), c.Holder.SandboxName)
}

// whose names a member and its sandbox.
func whose(r crdv1.SandboxedWorkloadRef) string {
	return fmt.Sprintf("%s %s/%s of sandbox %q", r.Kind, r.Namespace, r.Name, r.SandboxName)
}

// claim is a member that stands for a baseline.
type claim struct {
	claimant table.Claimant
	baseline crdv1.ObjectRef
	ref      crdv1.SandboxedWorkloadRef
}

// compare puts claims of one baseline together, its holder first.
func (c claim) compare(other claim) int {
	return cmp.Or(
		cmp.Compare(baseline.RoutedKind(c.baseline), baseline.RoutedKind(other.baseline)),
		cmp.Compare(c.baseline.Namespace, other.baseline.Namespace),
		cmp.Compare(c.baseline.Name, other.baseline.Name),
		c.claimant.Compare(other.claimant),
	)
}

// Conflicts returns every conflict among the members, by baseline and loser. A member whose
// baseline was never seen is in none: the routing table does not know it either.
func (r Routing) Conflicts() []Conflict {
	var claims []claim
	for _, m := range r.Named() {
		have := r.Member(m)
		if have == nil {
			continue
		}
		if seen, ok := member.Observed(have); ok {
			ref, _ := have.BaselineRef()
			claims = append(claims, claim{table.ClaimantOf(seen), ref, Ref(have, r.SandboxName(m))})
		}
	}
	slices.SortFunc(claims, claim.compare)
	var out []Conflict
	var holder claim
	for i, c := range claims {
		if i == 0 || !baseline.Same(c.baseline, holder.baseline) {
			holder = c
			continue
		}
		out = append(out, Conflict{Baseline: c.baseline, Holder: holder.ref, Loser: c.ref})
	}
	return out
}

// NoConflicts returns the condition for ConditionNoConflicts.
func (r Routing) NoConflicts() condition.Condition {
	conflicts := r.Conflicts()
	if len(conflicts) == 0 {
		return condition.True(ConditionNoConflicts, "No two members stand for one baseline.")
	}
	var all []string
	for _, c := range conflicts[:min(len(conflicts), shown)] {
		all = append(all, c.String())
	}
	more := ""
	if n := len(conflicts) - shown; n > 0 {
		more = fmt.Sprintf(" And %d more.", n)
	}
	return condition.False(ReasonRoutingConflict, strings.Join(all, ". ")+"."+more)
}
