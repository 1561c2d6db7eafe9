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
	for _, b := range hamt.Diff(older.baselines, newer.baselines, sameRuleSet) {
		for _, c := range hamt.Diff(b.Old.rulesByKey(), b.New.rulesByKey(), (*Rule).Equal) {
			out = append(out, Change{Baseline: b.Key, RoutingKey: c.Key, Old: c.Old, New: c.New})
		}
	}
	slices.SortFunc(out, func(a, b Change) int {
		return cmp.Or(a.Baseline.Compare(b.Baseline), cmp.Compare(a.RoutingKey, b.RoutingKey))
	})
	return out
}

func sameRuleSet(a, b *ruleSet) bool { return a == b || a.hash == b.hash }

func (s *ruleSet) rulesByKey() hamt.Map[string, *Rule] {
	if s == nil {
		return hamt.Map[string, *Rule]{}
	}
	return s.byKey
}
