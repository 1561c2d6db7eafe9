package main

import (
	"io"

	"switchyard.dev/tests/figures"
)

// figure prints one number, and the same for bare gRPC.
var figure = figures.Beside("bare gRPC").AtMost

// print prints a fan-out; log is the suffix of each name.
func (f fanned) print(w io.Writer, log string, bare fanned) {
	figure(w, "watch-last-p50"+log, figures.Millis(f.fromReturn, 0.5), "ms", 0, figures.Millis(bare.fromReturn, 0.5))
	figure(w, "watch-last-p99"+log, figures.Millis(f.fromReturn, 0.99), "ms", 50, figures.Millis(bare.fromReturn, 0.99))
	figure(w, "watch-last-max"+log, figures.Millis(f.fromReturn, 1), "ms", 0, figures.Millis(bare.fromReturn, 1))
	figure(w, "watch-last-p99-to-bare"+log, figures.Millis(f.fromReturn, 0.99)/figures.Millis(bare.fromReturn, 0.99), "times", 0, 0)
	figure(w, "watch-last-p50-from-call"+log, figures.Millis(f.fromCall, 0.5), "ms", 0, figures.Millis(bare.fromCall, 0.5))
	figure(w, "watch-last-p99-from-call"+log, figures.Millis(f.fromCall, 0.99), "ms", 0, figures.Millis(bare.fromCall, 0.99))
	figure(w, "watch-changes"+log, f.perSecond, "per-s", 0, bare.perSecond)
	figure(w, "watch-cpu-server"+log, f.server, "s-per-s", 0, bare.server)
	figure(w, "watch-cpu-watchers"+log, f.watchers, "s-per-s", 0, bare.watchers)
	figure(w, "watch-cpu-others-on-this-machine"+log, f.others, "s-per-s", 0, bare.others)
}
