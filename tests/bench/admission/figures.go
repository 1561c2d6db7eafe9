package main

import (
	"fmt"
	"io"
	"math"
	"time"
)

// figure prints one number. A most of 0 is no target; beside is the same number
// without a webhook, 0 when there is none.
func figure(w io.Writer, name string, value float64, unit string, most, beside float64) {
	fmt.Fprintf(w, "%s %.4g %s", name, value, unit)
	switch {
	case most > 0 && beside > 0:
		fmt.Fprintf(w, " (target at most %.4g, without a webhook %.4g)", most, beside)
	case most > 0:
		fmt.Fprintf(w, " (target at most %.4g)", most)
	case beside > 0:
		fmt.Fprintf(w, " (without a webhook %.4g)", beside)
	}
	if most > 0 {
		fmt.Fprintf(w, ": %s", verdict(value <= most))
	}
	fmt.Fprintln(w)
}

// all prints how many of how many.
func all(w io.Writer, name string, got, want int) {
	fmt.Fprintf(w, "%s %d pods (target at least %d): %s\n", name, got, want, verdict(got >= want))
}

func verdict(holds bool) string {
	if holds {
		return "holds"
	}
	return "short"
}

// at gives the duration, in milliseconds, that a share q of sorted ones did not
// exceed.
func at(sorted []time.Duration, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	i := max(0, int(math.Ceil(q*float64(len(sorted))))-1)
	return sorted[i].Seconds() * 1000
}

// late gives, in seconds and to a hundredth, how much longer the pods of a burst
// took than those at the same places in the order of another, at most.
func (b burst) late(usual burst) (most float64) {
	for i, took := range b.took {
		if i < len(usual.took) {
			most = max(most, math.Round((took-usual.took[i]).Seconds()*100)/100)
		}
	}
	return most
}

// busy prints how many processors computed for this measurement and for others.
func busy(w io.Writer, when string, own, others float64) {
	figure(w, "processors-"+when, own, "busy", 0, 0)
	figure(w, "processors-of-others-"+when, others, "busy", 0, 0)
}
