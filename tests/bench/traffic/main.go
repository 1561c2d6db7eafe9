package main

import (
	"context"
	"flag"
	"os"
	"time"

	"switchyard.dev/tests/bench/frame"
	"switchyard.dev/tests/process"
)

func main() {
	var s settings
	flag.IntVar(&s.rate, "rate", 2000, "requests a second")
	flag.IntVar(&s.slow, "slow", 100, "requests a second through mitmproxy")
	flag.IntVar(&s.rounds, "rounds", 10, "rounds")
	flag.DurationVar(&s.slice, "slice", time.Second, "length of one measurement")
	flag.BoolVar(&s.highest, "highest", true, "find the highest rate without a loss, too")
	flag.StringVar(&s.cache, "cache", os.Getenv("SWITCHYARD_CACHE"), "folder for mitmproxy")
	if process.Role() == "processor" {
		frame.Main("bench-traffic processor", func(context.Context) error { return process.Answer(&Processor{}) })
		return
	}
	flag.Parse()
	frame.Main("bench-traffic", func(ctx context.Context) error { return run(ctx, s, os.Stdout) })
}
