package main

import (
	"fmt"
	"io"
	"math"
	"time"

	"switchyard.dev/tests/figures"
)

// figure prints one number, and the same without a webhook.
var figure = figures.Beside("without a webhook").AtMost

// all prints how many of how many.
func all(w io.Writer, name string, got, want int) {
	fmt.Fprintf(w, "%s %d pods (target at least %d): %s\n", name, got, want, figures.Verdict(got >= want))
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
