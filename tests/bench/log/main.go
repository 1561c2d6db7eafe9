// Command log measures the durable publishing of facts, through the public Log and an embedded
// server that syncs every event to disk before it acknowledges it. It prints one line for each
// number: its name, its value, its unit, and whether it meets its target. It never fails on a
// number: machines differ, and the reader judges.
//
// Beside the numbers it prints the raw fdatasync of the same disk, measured between the rounds of
// the same run: no log can be faster than one of it.
package main

import (
	"context"
	"flag"
	"os"
	"time"

	"switchyard.dev/tests/bench/frame"
)

// settings are what the command line can change.
type settings struct {
	// dir is where the log and the file for the raw fdatasync are made.
	dir string
	// publishers append at the same time; rounds and round are the number and length of rounds.
	publishers, rounds int
	round              time.Duration
}

func main() {
	var s settings
	flag.StringVar(&s.dir, "dir", os.TempDir(), "directory on the disk to measure")
	flag.IntVar(&s.publishers, "publishers", 64, "how many append at the same time")
	flag.IntVar(&s.rounds, "rounds", 4, "rounds of each measurement")
	flag.DurationVar(&s.round, "round", 2*time.Second, "length of a round")
	flag.Parse()
	frame.Main("bench-log", func(ctx context.Context) error { return run(ctx, s, os.Stdout) })
}
