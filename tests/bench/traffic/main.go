package main

import (
	"context"
	"flag"
	"os"
	"time"

	"switchyard.dev/tests/bench/frame"
	"switchyard.dev/tests/captured"
	"switchyard.dev/tests/process"
)

func main() {
	var s settings
	flag.IntVar(&s.rate, "rate", 2000, "requests a second")
	flag.IntVar(&s.slow, "slow", 100, "requests a second through mitmproxy")
	flag.IntVar(&s.rounds, "rounds", 10, "rounds")
	flag.DurationVar(&s.slice, "slice", time.Second, "length of one measurement")
	flag.DurationVar(&s.idle, "idle", 75*time.Second, "how long a container without a capture is observed, and in the second half its memory")
	flag.DurationVar(&s.long, "long", 10*time.Minute, "length of the long run")
	flag.IntVar(&s.kills, "kills", 3, "how often the container is killed")
	flag.IntVar(&s.requests, "requests", 100_000, "requests that goreplay and the container record")
	flag.StringVar(&s.only, "only", "", "parts to measure, separated by commas: idle, long, kill, receiver, goreplay, cost, highest; default: all")
	flag.StringVar(&s.cache, "cache", os.Getenv("SWITCHYARD_CACHE"), "folder for mitmproxy and goreplay")
	flag.BoolFunc("short", "a few minutes: 200 requests a second, 10 s in place of 10 min, 5,000 requests, one round, no highest rates; later flags replace these", func(string) error {
		s.rate, s.slow, s.rounds, s.long, s.kills, s.requests, s.only = 200, 20, 1, 10*time.Second, 1, 5000, "idle,long,kill,receiver,goreplay,cost"
		return nil
	})
	var role func() error
	switch process.Role() {
	case "processor":
		role = func() error { return process.Answer(&Processor{}) }
	case captured.Role:
		role = captured.Manage
	}
	if role != nil {
		frame.Main("bench-traffic "+process.Role(), func(context.Context) error { return role() })
		return
	}
	flag.Parse()
	frame.Main("bench-traffic", func(ctx context.Context) error { return run(ctx, s, os.Stdout) })
}
