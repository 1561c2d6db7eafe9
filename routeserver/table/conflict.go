package table

import (
	"cmp"
	"math"
	"slices"

	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/routeserver/table/hamt"
)

// Conflict is a pair of members of one routing key that represent the same baseline. There is one
// destination for each decision: the member with the older object owns it; of two equally old ones,
// the first by namespace and name.
type Conflict struct {
	RoutingKey string
	Baseline   Workload
	// Holder and HolderSandbox serve the requests.
	Holder        Member
	HolderSandbox string
	// Loser and LoserSandbox would serve them if the holder went away.
	Loser        Member
	LoserSandbox string
}

// Claimant is the identity and age of a member, which decide which of several owns a baseline under
// one routing key. Create one with ClaimantOf.
type Claimant struct {
	member  Member
	seconds int64
	nanos   int32
}

// ClaimantOf returns the claim of an observed member. One without a creation time cannot claim to
// be older than another.
func ClaimantOf(seen *factv1.WorkloadObserved) Claimant {
	w := seen.GetWorkload()
	c := Claimant{member: Member{Kind: w.GetKind(), Namespace: w.GetNamespace(), Name: w.GetName()}}
	c.seconds, c.nanos = created(seen)
	return c
}

// created returns the time of creation that an observed workload states.
func created(o *factv1.WorkloadObserved) (seconds int64, nanos int32) {
	if o.GetCreated() == nil {
		return math.MaxInt64, 0
	}
	return o.GetCreated().GetSeconds(), o.GetCreated().GetNanos()
}

// Compare orders claimants of one baseline: negative when c wins over other. It is the only
// implementation of that rule; controllers use it to find the losers.
func (c Claimant) Compare(other Claimant) int {
	return cmp.Or(
		cmp.Compare(c.seconds, other.seconds),
		cmp.Compare(c.nanos, other.nanos),
		cmp.Compare(c.member.Namespace, other.member.Namespace),
		cmp.Compare(c.member.Name, other.member.Name),
		cmp.Compare(c.member.Kind, other.member.Kind),
	)
}

// contested has the conflicts of one routing key.
type contested struct {
	routingKey string
	all        []Conflict
}

// ID makes it findable.
func (c *contested) ID() hamt.Text { return hamt.Text(c.routingKey) }

// Conflicts returns every conflict, sorted by routing key, baseline and loser.
func (t Table) Conflicts() []Conflict {
	var out []Conflict
	t = t.filled()
	for of := range t.conflicts.All() {
		out = append(out, of.all...)
	}
	slices.SortFunc(out, compareConflicts)
	return out
}

func compareConflicts(a, b Conflict) int {
	return cmp.Or(
		cmp.Compare(a.RoutingKey, b.RoutingKey),
		a.Baseline.Compare(b.Baseline),
		cmp.Compare(a.Loser.Namespace, b.Loser.Namespace),
		cmp.Compare(a.Loser.Name, b.Loser.Name),
		cmp.Compare(a.Loser.Kind, b.Loser.Kind),
	)
}
