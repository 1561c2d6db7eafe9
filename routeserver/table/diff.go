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

// Diff gives the decisions that differ between two tables, sorted like All.
// Provenance is not a difference. Its cost follows the number of changes when
// one table was made from the other, and the number of baselines otherwise.
func Diff(older, newer Table) []Change {
	var out []Change
	for _, b := range hamt.Diff(older.baselines, newer.baselines, sameRules) {
		out = changesOf(out, b.Old, b.New)
	}
	slices.SortFunc(out, Change.compare)
	return out
}

func sameRules(a, b *baseline) bool { return a == b || a.hash == b.hash }

func (b *baseline) rulesByKey() hamt.Map[hamt.Text, *Rule] {
	if b == nil {
		return hamt.Map[hamt.Text, *Rule]{}
	}
	return b.byKey
}

// DiffOf is Diff for one baseline. It costs one comparison when nothing changed
// there.
func DiffOf(older, newer Table, w Workload) []Change {
	a, _ := older.baselines.Get(w)
	b, _ := newer.baselines.Get(w)
	if a == b || older.HashOf(w) == newer.HashOf(w) {
		return nil
	}
	out := changesOf(nil, a, b)
	slices.SortFunc(out, Change.compare)
	return out
}

func changesOf(out []Change, older, newer *baseline) []Change {
	for _, c := range hamt.Diff(older.rulesByKey(), newer.rulesByKey(), (*Rule).Equal) {
		either := cmp.Or(c.New, c.Old)
		out = append(out, Change{Baseline: either.Baseline, RoutingKey: either.RoutingKey, Old: c.Old, New: c.New})
	}
	return out
}

func (c Change) compare(other Change) int {
	return cmp.Or(c.Baseline.Compare(other.Baseline), cmp.Compare(c.RoutingKey, other.RoutingKey))
}
