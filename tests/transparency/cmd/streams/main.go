// Command streams measures how fast large bodies pass the sidecar, beside a stock
// Envoy and beside nothing (package streams). It never fails on a number.
package main

import (
	"context"
	"flag"
	"os"

	"switchyard.dev/tests/bench/frame"
	"switchyard.dev/tests/transparency/streams"
)

func main() {
	s := streams.Default()
	flag.Int64Var(&s.Bytes, "bytes", s.Bytes, "size of each body")
	flag.IntVar(&s.Runs, "runs", s.Runs, "runs of each row")
	flag.DurationVar(&s.RTT, "rtt", s.RTT, "round trip of the line with a delay")
	flag.StringVar(&s.Rows, "rows", s.Rows, "only rows whose name has this in it")
	flag.IntVar(&s.Stall, "stall", s.Stall, "make so many downloads on a busy machine instead")
	flag.Int64Var(&s.StallBytes, "stall-bytes", s.StallBytes, "size of each of those")
	flag.IntVar(&s.Busy, "busy", s.Busy, "loops that keep the machine busy meanwhile")
	flag.Parse()
	frame.Main("streams", func(ctx context.Context) error { return streams.Run(ctx, s, os.Stdout) })
}
