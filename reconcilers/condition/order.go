package condition

import (
	"maps"
	"slices"
)

// sortedRest returns the condition types of the conditions that are not known, in
// alphabetical order, so that the same conditions always give the same list.
func sortedRest(f Set, known map[string]bool) []string {
	rest := slices.Sorted(maps.Keys(f))
	return slices.DeleteFunc(rest, func(t string) bool { return known[t] })
}
