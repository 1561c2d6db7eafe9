package table

import (
	"cmp"
	"iter"
	"slices"
)

// All gives every rule, sorted by kind, namespace and name of the baseline, then
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

// Of gives the rules of one baseline, sorted by routing key.
func (t Table) Of(w Workload) iter.Seq[*Rule] {
	return func(yield func(*Rule) bool) {
		b, ok := t.baselines.Get(w)
		if !ok {
			return
		}
		rules := make([]*Rule, 0, b.byKey.Len())
		for r := range b.byKey.All() {
			rules = append(rules, r)
		}
		slices.SortFunc(rules, func(a, b *Rule) int { return cmp.Compare(a.RoutingKey, b.RoutingKey) })
		for _, r := range rules {
			if !yield(r) {
				return
			}
		}
	}
}

// Baselines gives every baseline that has a rule, sorted by kind, namespace and
// name.
func (t Table) Baselines() iter.Seq[Workload] {
	return func(yield func(Workload) bool) {
		all := make([]Workload, 0, t.baselines.Len())
		for b := range t.baselines.All() {
			if b.byKey.Len() > 0 {
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

// Compare orders workloads by kind, namespace and name: negative when w comes
// first, 0 when they are the same.
func (w Workload) Compare(other Workload) int {
	return cmp.Or(
		cmp.Compare(w.Kind, other.Kind),
		cmp.Compare(w.Namespace, other.Namespace),
		cmp.Compare(w.Name, other.Name),
	)
}
