package table

import (
	"cmp"
	"slices"

	"switchyard.dev/routeserver/table/hamt"
)

// Change is one decision that differs between two tables: what happens to
// requests for Baseline that carry RoutingKey.
type Change struct {
	Baseline   Workload
	RoutingKey string
	// Old and New are the rules before and after; nil where there is none, in
	// which case such requests belong to the baseline.
	Old, New *Rule
}

// Diff returns the decisions that differ between two tables, sorted like All.
// Provenance is not a difference. Its cost follows the number of changes when
// one table was made from the other, and the number of rules otherwise.
func Diff(older, newer Table) []Change {
	return changesOf(hamt.Diff(older.filled().rules, newer.filled().rules, slot.same))
}

// DiffOf is Diff for one baseline. It costs one comparison when nothing changed
// there.
func DiffOf(older, newer Table, w Workload) []Change {
	if older.HashOf(w) == newer.HashOf(w) {
		return nil
	}
	out := changesOf(hamt.DiffNear(older.filled().rules, newer.filled().rules, workloadID(w).Hash(), slot.same))
	return slices.DeleteFunc(out, func(c Change) bool { return c.Baseline != w })
}

func changesOf(differ []hamt.Change[slot]) []Change {
	var out []Change
	for _, c := range differ {
		either := cmp.Or(c.New.rule, c.Old.rule)
		out = append(out, Change{Baseline: either.Baseline, RoutingKey: either.RoutingKey, Old: c.Old.rule, New: c.New.rule})
	}
	slices.SortFunc(out, Change.compare)
	return out
}

func (c Change) compare(other Change) int {
	return cmp.Or(c.Baseline.Compare(other.Baseline), cmp.Compare(c.RoutingKey, other.RoutingKey))
}
