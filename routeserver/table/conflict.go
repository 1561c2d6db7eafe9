package table

import (
	"cmp"
	"slices"

	"switchyard.dev/routeserver/table/hamt"
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

// contested has the conflicts of one routing key.
type contested struct {
	routingKey string
	all        []Conflict
}

// ID makes it findable.
func (c *contested) ID() hamt.Text { return hamt.Text(c.routingKey) }

// Conflicts gives every conflict, sorted by routing key, baseline and loser.
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
