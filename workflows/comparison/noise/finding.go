package noise

import (
	"math"

	"switchyard.dev/workflows/comparison/structure"
)

// Colour of a finding, and of a comparison: its worst.
type Colour string

// Red is outside of the noise at the error level, Yellow differs but can be noise, Green is noise that the baseline has too.
const (
	Red    Colour = "red"
	Yellow Colour = "yellow"
	Green  Colour = "green"
)

// Operation is what happened to a place, in the published words.
type Operation string

// The operations.
const (
	Add     Operation = "add"
	Remove  Operation = "remove"
	Replace Operation = "replace"
)

// Finding is a place where the fork differs.
type Finding struct {
	// Path is generalised: * is any element of a list or any key of a map. At has the element of this finding.
	Path, At  string
	Colour    Colour
	Operation Operation
	// Property is what differs: "type", "value", "format", "length", "order", "range", …
	Property string
	// Baseline and Fork are the property or the values, run by run.
	Baseline, Fork []string
	// Old and New are values of the first run that has them; nil where the place is missing.
	Old, New *structure.Value
	// Level is the greatest chance of such a finding without a change, if the runs are independent.
	Level float64
}

// Level is the greatest chance that a property with two results, random in each of the k runs of the baseline and n of the
// fork, is the same in all runs of each side and differs between them. More results have a smaller chance.
func Level(k, n int) float64 { return math.Ldexp(1, 1-k-n) }
