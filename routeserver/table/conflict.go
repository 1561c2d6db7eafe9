package table

import (
	"cmp"
	"slices"
)

// Conflict says that two members of one routing key stand for the same
// baseline. There is one destination for each decision: the member whose object
// is older holds it, of two equally old ones the first by namespace and name.
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

// Conflicts gives every conflict, sorted by routing key, baseline and loser.
func (t Table) Conflicts() []Conflict {
	var out []Conflict
	for _, of := range t.conflicts.All() {
		out = append(out, of...)
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
