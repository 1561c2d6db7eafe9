// Package spelling computes the edit distance of two names, so that a caller that refuses one can suggest
// another. The caller chooses the limit: query parameters and containers are misspelt in different ways.
// It is pure.
package spelling

import (
	"fmt"
	"slices"
	"strings"

	"switchyard.dev/eventbus/lists"
)

// Known returns names as values of all. An unknown name is an error that lists all; kind is
// the noun of the values.
func Known[T ~string](names []string, all []T, kind string) ([]T, error) {
	var out []T
	for _, name := range names {
		if !slices.Contains(all, T(name)) {
			known := lists.Map(all, func(v T) string { return string(v) })
			return nil, fmt.Errorf("%q is no %s; there are: %s", name, kind, strings.Join(known, ", "))
		}
		out = append(out, T(name))
	}
	return out, nil
}

// Distance returns how many letters have to be added, removed, replaced or swapped with
// their neighbour to make b of a (the optimal string alignment distance), in bytes; most
// plus one where the lengths alone differ by more than most.
func Distance(a, b string, most int) int {
	if d := len(a) - len(b); d > most || d < -most {
		return most + 1
	}
	// Three rows of the table: the one that is filled and the two above it.
	above2, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		above2, above, row = above, row, above2
		row[0] = i + 1
		for j := range len(b) {
			replace := above[j]
			if a[i] != b[j] {
				replace++
			}
			row[j+1] = min(row[j]+1, above[j+1]+1, replace)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], above2[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
