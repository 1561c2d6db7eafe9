package table

import (
	"cmp"
	"iter"
	"slices"
)

// All returns every rule, sorted by kind, namespace and name of the baseline, then
// by routing key.
func (t Table) All() iter.Seq[*Rule] {
	return func(yield func(*Rule) bool) {
		for w := range t.Baselines() {
			for r := range t.Of(w) {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// Of returns the rules of one baseline, sorted by routing key.
func (t Table) Of(w Workload) iter.Seq[*Rule] {
	return func(yield func(*Rule) bool) {
		t := t.filled()
		b, known := t.baselines.Get(workloadID(w))
		if !known {
			return
		}
		rules := make([]*Rule, 0, b.rules)
		for s := range t.rules.Near(b.Place.hash) {
			if s.place == b.Place {
				rules = append(rules, s.rule)
			}
		}
		slices.SortFunc(rules, func(a, b *Rule) int { return cmp.Compare(a.RoutingKey, b.RoutingKey) })
		for _, r := range rules {
			if !yield(r) {
				return
			}
		}
	}
}

// Baselines returns every baseline that has a rule, sorted by kind, namespace and
// name.
func (t Table) Baselines() iter.Seq[Workload] {
	return func(yield func(Workload) bool) {
		t := t.filled()
		all := make([]Workload, 0, t.baselines.Len())
		for b := range t.baselines.All() {
			if b.rules > 0 {
				all = append(all, b.Baseline)
			}
		}
		slices.SortFunc(all, Workload.Compare)
		for _, w := range all {
			if !yield(w) {
				return
			}
		}
	}
}
