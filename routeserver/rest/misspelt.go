package rest

import (
	"iter"
	"strings"
)

// mostTypos is how many letters a name may differ by and still be a misspelling.
const mostTypos = 2

// misspelt returns the known name that name is a misspelling of, or "". A misspelling
// differs by at most two letters, in upper and lower case as it likes, and by less
// than half of its length: short names are near to everything.
func misspelt(name string, known iter.Seq[string]) string {
	nearest, least := "", mostTypos+1
	for k := range known {
		d := typos(strings.ToLower(name), strings.ToLower(k))
		if d < least || d == least && k < nearest {
			nearest, least = k, d
		}
	}
	if least > mostTypos || 2*least >= len(name) {
		return ""
	}
	return nearest
}

// typos counts the letters that have to be inserted, left out, replaced or swapped
// with their neighbour to make b of a (the optimal string alignment distance). It
// counts bytes, and stops early where the lengths alone are too far apart.
func typos(a, b string) int {
	if d := len(a) - len(b); d > mostTypos || d < -mostTypos {
		return mostTypos + 1
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
