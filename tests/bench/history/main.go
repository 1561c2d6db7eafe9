// Command history measures how past versions are rebuilt from the log, and prints one line for each
// number: its name, its value, its unit, and whether it meets its target. It never fails on a
// number: machines differ, and the reader judges.
//
//	time-travel        10,000 random events are recorded in a JetStream log, and
//	                   folded as they are written; a separate process, which has
//	                   nothing but the log, rebuilds 100 random versions of them
//	rebuild            any of 100 random versions out of 100,000 events, compared with
//	                   the naive form: folding the log from its beginning
package main

import (
	"context"
	"flag"
	"math/rand/v2"
	"os"

	"switchyard.dev/tests/bench/frame"
	"switchyard.dev/tests/process"
)

func main() {
	seed := flag.Uint64("seed", rand.Uint64(), "makes the same events again")
	flag.Parse()
	frame.Main("history", func(ctx context.Context) error {
		if process.Role() == roleElsewhere {
			return process.Answer(Elsewhere{})
		}
		return measure(ctx, *seed, os.Stdout)
	})
}
