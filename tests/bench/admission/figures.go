package main

import (
	"io"
	"math"
	"os"

	"switchyard.dev/tests/figures"
	"switchyard.dev/tests/process"
)

// figure prints one number, and the same without a webhook.
var figure = figures.Beside("without a webhook").AtMost

// all prints how many of how many.
func all(w io.Writer, name string, got, want int) {
	figures.AtLeast(w, name, float64(got), "pods", float64(want))
}

// late returns the maximum delay of the pods of a burst, in seconds and to a hundredth, relative to
// those at the same positions of another.
func (b burst) late(usual burst) (most float64) {
	for i, took := range b.took {
		if i < len(usual.took) {
			most = max(most, math.Round((took-usual.took[i]).Seconds()*100)/100)
		}
	}
	return most
}

// computing begins to measure how many processors compute for this measurement, and for
// others.
func computing() func() (own, others float64) {
	busy := process.Busy(process.Family(os.Getpid())...)
	return func() (own, others float64) {
		each, others := busy()
		for _, one := range each {
			own += one
		}
		return own, others
	}
}

// busy prints how many did.
func busy(w io.Writer, when string, own, others float64) {
	figure(w, "processors-"+when, own, "busy", 0, 0)
	figure(w, "processors-of-others-"+when, others, "busy", 0, 0)
}
