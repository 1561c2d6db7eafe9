package routing

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/routeserver/table"
)

// ConditionNoConflicts is a condition of RoutingConfigs and SignadotRouteGroups that this operator
// adds: no two members replace the same baseline. It does not count for Ready, since the routing of all
// other members works.
const ConditionNoConflicts = "NoConflicts"

// ReasonRoutingConflict: two members replace the same baseline.
const ReasonRoutingConflict = "RoutingConflict"

// Conflict is a pair of members of one routing key that replace the same baseline. The older one holds
// it, or the first by namespace and name if both are equally old: the rule of the routing table
// (table.Claimant).
type Conflict struct {
	// Baseline is the workload that both replace.
	Baseline crdv1.ObjectRef
	// Holder gets the requests; Loser would, if the holder went away.
	Holder, Loser crdv1.SandboxedWorkloadRef
}

// String returns the message of a condition, with the remedy.
func (c Conflict) String() string {
	return fmt.Sprintf("%s and %s both represent %s. Sandbox %q gets the requests, since its member is older, or first by name where both are as old: take one of the two sandboxes away from this routing key, or the workload out of one of them",
		memberName(c.Holder), memberName(c.Loser), baseline.Describe(c.Baseline), c.Holder.SandboxName)
}

// memberName returns the name of a member and of its sandbox, for messages.
func memberName(r crdv1.SandboxedWorkloadRef) string {
	return fmt.Sprintf("%s %s/%s of sandbox %q", r.Kind, r.Namespace, r.Name, r.SandboxName)
}

// claim is a member that replaces a baseline.
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

// Conflicts returns all conflicts among the members, by baseline and loser. Members without an observed
// baseline are not compared, since the routing table does not know them either.
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
		return condition.True(ConditionNoConflicts, "No two members have the same baseline.")
	}
	all := lists.Map(conflicts[:min(len(conflicts), shown)], Conflict.String)
	more := ""
	if n := len(conflicts) - shown; n > 0 {
		more = fmt.Sprintf(" And %d more.", n)
	}
	return condition.False(ReasonRoutingConflict, strings.Join(all, ". ")+"."+more)
}
