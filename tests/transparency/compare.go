package transparency

import (
	"fmt"
	"maps"
	"slices"

	"switchyard.dev/tests/transparency/differences"
	"switchyard.dev/tests/transparency/suite"
)

// Difference is a case in which a caller could distinguish two ways.
type Difference struct {
	Suite, Case, Bare, Through string
	// Allowed: the difference is in the table of allowed differences.
	Allowed bool
}

// Name is what the table of differences calls it by.
func (d Difference) Name() string { return d.Suite + "/" + d.Case }

// String returns the line to print.
func (d Difference) String() string {
	said := fmt.Sprintf("%s: bare %s, with the sidecar %s", d.Name(), d.Bare, d.Through)
	if !d.Allowed {
		return said + " (not in the table)"
	}
	return said + " (in the table)"
}

// unseen replaces the result of a case that one of two runs lacks.
const unseen = "not seen"

// Compare returns the differences between what a suite has seen of the bare application
// and through the sidecar, by name; table is that of the differences that there are.
func Compare(name string, bare, through suite.Seen, table []differences.Row) []Difference {
	all := maps.Clone(bare)
	maps.Copy(all, through)
	var found []Difference
	for _, c := range slices.Sorted(maps.Keys(all)) {
		d := Difference{Suite: name, Case: c, Bare: unseen, Through: unseen}
		if said, ok := bare[c]; ok {
			d.Bare = said
		}
		if said, ok := through[c]; ok {
			d.Through = said
		}
		if d.Bare == d.Through || d.Through == suite.Passed {
			continue
		}
		d.Allowed = has(table, d.Name())
		found = append(found, d)
	}
	return found
}

// has reports whether the table of differences has a case.
func has(table []differences.Row, name string) bool {
	return slices.ContainsFunc(table, func(r differences.Row) bool { return r.Matches(name) })
}

// Worse returns the cases in which one run of a conformance suite did not pass and another
// did, but for those that the table of differences has.
func Worse(name string, than, run suite.Seen, table []differences.Row) []string {
	var worse []string
	for _, c := range slices.Sorted(maps.Keys(than)) {
		if than[c] == suite.Passed && run[c] != suite.Passed && !has(table, name+"/"+c) {
			worse = append(worse, c)
		}
	}
	return worse
}
