// Package figures prints what benchmarks measure: one line for each figure, with its
// target and whether it holds. A figure that falls short is no error.
//
//	NAME VALUE UNIT (target …): holds
package figures

import (
	"fmt"
	"io"
)

// Verdict is the word for whether a target is met.
func Verdict(holds bool) string {
	if holds {
		return "holds"
	}
	return "short"
}

// Told prints a figure whose target is told in words.
func Told(w io.Writer, name string, value any, unit, target string, holds bool) {
	fmt.Fprintf(w, "%s %v %s (target %s): %s\n", name, value, unit, target, Verdict(holds))
}

// Beside names what the figures of a benchmark stand beside, measured in the same
// run.
type Beside string

// AtMost prints a figure that is to be at most a target; 0 is no target. beside is
// the same figure of what it stands beside, 0 when there is none.
func (b Beside) AtMost(w io.Writer, name string, value float64, unit string, target, beside float64) {
	fmt.Fprintf(w, "%s %.4g %s", name, value, unit)
	switch {
	case target > 0 && beside > 0:
		fmt.Fprintf(w, " (target at most %.4g, %s %.4g)", target, b, beside)
	case target > 0:
		fmt.Fprintf(w, " (target at most %.4g)", target)
	case beside > 0:
		fmt.Fprintf(w, " (%s %.4g)", b, beside)
	}
	if target > 0 {
		fmt.Fprintf(w, ": %s", Verdict(value <= target))
	}
	fmt.Fprintln(w)
}
