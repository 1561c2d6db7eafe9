package noise

import (
	"iter"
	"slices"
	"strings"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/workflows/comparison/structure"
)

// side has the values of a place in each run: one, or several where elements are pooled. nil is a missing value.
type side [][]*structure.Value

// place is a path in one element of each list above it, over all runs.
type place struct {
	at         string
	base, fork side
	loose      bool   // other elements than in the baseline are in it: their values differ
	skip       string // a member that is judged elsewhere
}

// missing is the property of a value that is not there.
const missing = "missing"

// kindOf is the type as a property.
func kindOf(v *structure.Value) string {
	if v == nil {
		return missing
	}
	return string(v.Kind)
}

func textOf(v *structure.Value) string {
	if v == nil {
		return missing
	}
	return v.Text
}

// separator is between the results of a property in one run.
const separator = " | "

// sets returns a property in each run that has values, as the set of its results.
func (s side) sets(property func(*structure.Value) string) []string {
	var sets []string
	for _, run := range s {
		if len(run) > 0 {
			sets = append(sets, strings.Join(lists.Unique(lists.Map(run, property)), separator))
		}
	}
	return sets
}

// values are all values of all runs, missing ones too.
func (s side) values() iter.Seq[*structure.Value] {
	return func(yield func(*structure.Value) bool) {
		for _, run := range s {
			for _, v := range run {
				if !yield(v) {
					return
				}
			}
		}
	}
}

// constant reports whether all are the same.
func constant(sets []string) bool {
	return len(sets) > 0 && !slices.ContainsFunc(sets, func(s string) bool { return s != sets[0] })
}

// only keeps the values that a condition holds for.
func (s side) only(keep func(*structure.Value) bool) side {
	kept := make(side, len(s))
	for i, run := range s {
		for _, v := range run {
			if v != nil && keep(v) {
				kept[i] = append(kept[i], v)
			}
		}
	}
	return kept
}

// spread replaces each value by others.
func (s side) spread(by func(*structure.Value) []*structure.Value) side {
	other := make(side, len(s))
	for i, run := range s {
		for _, v := range run {
			other[i] = append(other[i], by(v)...)
		}
	}
	return other
}

// all reports whether a condition holds for each value, of which there is at least one.
func (s side) all(is func(*structure.Value) bool) bool {
	some := false
	for v := range s.values() {
		if v == nil || !is(v) {
			return false
		}
		some = true
	}
	return some
}

// first returns a value of the first run that has one.
func (s side) first() *structure.Value {
	for v := range s.values() {
		if v != nil {
			return v
		}
	}
	return nil
}

// single reports whether no run has several values.
func (s side) single() bool {
	return !slices.ContainsFunc(s, func(run []*structure.Value) bool { return len(run) > 1 })
}

// filled is how many runs have values.
func (s side) filled() (n int) {
	for _, run := range s {
		n += min(1, len(run))
	}
	return n
}

// below returns the place of the values that by returns for each value of a place.
func (p place) below(name string, by func(*structure.Value) []*structure.Value) place {
	return place{at: p.at + "/" + name, base: p.base.spread(by), fork: p.fork.spread(by)}
}

// filled reports whether both sides have values.
func (p place) filled() bool { return p.base.filled() > 0 && p.fork.filled() > 0 }

func (p place) only(keep func(*structure.Value) bool) place {
	p.base, p.fork = p.base.only(keep), p.fork.only(keep)
	return p
}

// differs reports whether a property is constant on both sides, and differs.
func (p place) differs(property func(*structure.Value) string) bool {
	base, fork := p.base.sets(property), p.fork.sets(property)
	return constant(base) && constant(fork) && base[0] != fork[0]
}
