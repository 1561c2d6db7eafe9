package rest

import (
	"iter"
	"strings"

	"switchyard.dev/eventbus/spelling"
)

// mostTypos is how many letters a name may differ by and still be a misspelling.
const mostTypos = 2

// misspelt returns the known name that name is a misspelling of, or "". A misspelling
// differs by at most two letters, in upper and lower case as it likes, and by less
// than half of its length: short names are near to everything.
func misspelt(name string, known iter.Seq[string]) string {
	nearest, least := "", mostTypos+1
	for k := range known {
		d := spelling.Distance(strings.ToLower(name), strings.ToLower(k), mostTypos)
		if d < least || d == least && k < nearest {
			nearest, least = k, d
		}
	}
	if least > mostTypos || 2*least >= len(name) {
		return ""
	}
	return nearest
}
