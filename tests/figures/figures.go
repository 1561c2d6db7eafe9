// Package figures prints what benchmarks measure: one line for each figure, with its
// target and whether it holds. A figure that falls short is no error.
//
//	NAME VALUE UNIT (target …): holds
package figures

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"time"
)

// Verdict is the word for whether a target is met.
func Verdict(holds bool) string {
	if holds {
		return "holds"
	}
	return "short"
}

// Text prints a figure with a target in words.
func Text(w io.Writer, name string, value any, unit, target string, holds bool) {
	fmt.Fprintf(w, "%s %v %s (target %s): %s\n", name, value, unit, target, Verdict(holds))
}

// Beside is the name of the comparison of a benchmark's figures, measured in the same run.
type Beside string

// AtMost prints a figure and its maximum; a target of 0 is none. beside is the same figure of the
// comparison, 0 when there is none.
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

// Print prints a figure without a target.
func Print(w io.Writer, name string, value float64, unit string) {
	fmt.Fprintf(w, "%s %.4g %s\n", name, value, unit)
}

// AtMost prints a figure that is to be at most a target.
func AtMost(w io.Writer, name string, value float64, unit string, target float64) {
	Text(w, name, fmt.Sprintf("%.4g", value), unit, fmt.Sprintf("at most %.4g", target), value <= target)
}

// AtLeast prints a figure that is to be at least a target.
func AtLeast(w io.Writer, name string, value float64, unit string, target float64) {
	Text(w, name, fmt.Sprintf("%.4g", value), unit, fmt.Sprintf("at least %.4g", target), value >= target)
}

// Quantile returns the value that a share q of all does not exceed, whatever their order;
// 0 when there are none.
func Quantile[T cmp.Ordered](all []T, q float64) (value T) {
	if len(all) == 0 {
		return value
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// Median returns the value that half of all do not exceed; 0 when there are none.
func Median[T cmp.Ordered](all []T) T { return Quantile(all, 0.5) }

// Millis returns a quantile of times in milliseconds; not a number when there are none.
func Millis(all []time.Duration, q float64) float64 {
	if len(all) == 0 {
		return math.NaN()
	}
	return Quantile(all, q).Seconds() * 1e3
}
