package routing

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// OutsideMesh returns, for each fork without a proxy of a mesh, which other baselines of the key it
// cannot call with the key, as they have no DevMesh sidecars: a mesh routes requests in the proxies
// of callers. Whether a fork calls them is not known.
func (r Routing) OutsideMesh() []string {
	var out []string
	inMesh := r.routedInMesh()
	for _, m := range r.Named() {
		have := r.Member(m)
		if have == nil {
			continue
		}
		c := crdv1.FindCondition(*have.StatusConditions(), crdv1.ConditionInMesh)
		if c == nil || c.Status != string(metav1.ConditionFalse) {
			continue
		}
		from, _ := have.BaselineRef()
		others := slices.DeleteFunc(slices.Clone(inMesh), func(ref crdv1.ObjectRef) bool { return baseline.Same(ref, from) })
		if len(others) == 0 {
			continue
		}
		out = append(out, fmt.Sprintf("The fork of %s has no proxy of a mesh, so requests with the key that it sends to %s reach the baseline; "+
			"set the label of injection by a patch (Istio: sidecar.istio.io/inject: \"true\"), or annotate the pod template of the called workload with %s: \"true\".",
			baseline.Describe(from), condition.List(lists.Map(others, baseline.Describe), shown, ", "), crdv1.AnnotationInject))
	}
	return out
}

// routedInMesh returns the baselines of members that the proxies of a mesh route to and DevMesh does not.
func (r Routing) routedInMesh() []crdv1.ObjectRef {
	var out []crdv1.ObjectRef
	holders := r.holders()
	for _, m := range r.Named() {
		have := r.Member(m)
		if have == nil || !TakesRequests(have) {
			continue
		}
		if by, any := r.ledByMesh(m, holders); !lacksSidecars(have) || !any || !by.IsTrue() {
			continue
		}
		at, _ := have.BaselineRef()
		if slices.ContainsFunc(meshServices(have), func(s crdv1.ServiceMapping) bool { return r.withinMesh(at.Namespace, s.From) }) {
			out = append(out, at)
		}
	}
	return out
}

// lacksSidecars reports whether pods of a member's baseline have no DevMesh sidecar.
func lacksSidecars(m crdv1.Member) bool {
	c := crdv1.FindCondition(*m.StatusConditions(), baseline.ConditionSidecarsReady)
	return c != nil && c.Status != string(metav1.ConditionTrue) && c.Reason == baseline.ReasonSidecarAbsent
}

// withinMesh reports whether proxies of a mesh route requests for a Service.
func (r Routing) withinMesh(namespace, service string) bool {
	f, by := r.serviceLed(namespace, service, r.meshesOn())
	return f.IsTrue() && withinMesh(r.Mesh[by.kind][r.meshRouteName(namespace, service)])
}

// inNamespace names a Service.
type inNamespace struct{ namespace, service string }

// holders returns, by baseline Service, the member that gets its requests from meshes. If two members
// replace one baseline, it is the holder of the baseline. If a Service selects pods of several
// baselines, it is the member of the first one in the order of the routing log, as in meshes.AskedOf.
func (r Routing) holders() map[inNamespace]crdv1.SandboxedWorkload {
	lost := map[member.Name]bool{}
	for _, c := range r.Conflicts() {
		lost[member.Name{Kind: c.Loser.Kind, Namespace: c.Loser.Namespace, Name: c.Loser.Name}] = true
	}
	out := map[inNamespace]crdv1.SandboxedWorkload{}
	for _, m := range r.Named() {
		have := r.Member(m)
		if have == nil || lost[NameIn(m)] {
			continue
		}
		at, _ := have.BaselineRef()
		for _, s := range meshServices(have) {
			id := inNamespace{at.Namespace, s.From}
			if holder, held := out[id]; !held || onLog(at).Compare(onLog(r.baselineOf(holder))) < 0 {
				out[id] = m
			}
		}
	}
	return out
}

// onLog names a baseline as the routing log does.
func onLog(ref crdv1.ObjectRef) table.Workload {
	return table.Workload{Kind: baseline.RoutedKind(ref), Namespace: ref.Namespace, Name: ref.Name}
}

// baselineOf returns the baseline of an existing member.
func (r Routing) baselineOf(m crdv1.SandboxedWorkload) crdv1.ObjectRef {
	ref, _ := r.Member(m).BaselineRef()
	return ref
}

// AnnotationDeclaredKey on a RoutingConfig is the key for which it has put a
// declaration on the log.
const AnnotationDeclaredKey = "signadot.com/declared-key"

// Holder returns which of some RoutingConfigs with one key has it. There is at least one.
func Holder(candidates ...*crdv1.RoutingConfig) *crdv1.RoutingConfig {
	return slices.MinFunc(candidates, func(a, b *crdv1.RoutingConfig) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}

// rank returns how much of a right a RoutingConfig has to its key, before its age counts;
// less is more.
func rank(c *crdv1.RoutingConfig) int {
	out := 0
	if c.Annotations[AnnotationDeclaredKey] != c.RoutingKey() {
		out += 2
	}
	if c.DeletionTimestamp != nil {
		out++
	}
	return out
}
