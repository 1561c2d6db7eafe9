package main

import (
	"context"
	"flag"
	"os"
	"time"

	"switchyard.dev/tests/bench/frame"
	"switchyard.dev/tests/process"
)

// settings are what the command line can change.
type settings struct {
	// rounds and slice are those of the measurement of CPU and throughput; calm
	// and second those of latency.
	rounds, calm  int
	slice, second time.Duration
	restarts      int
	// parts: measure also what each part of the sidecar's Envoy costs.
	parts bool
	// attacks: measure only the memory that attacks use; each for this long, with this many
	// clients, and only those with that text in their name.
	attacks bool
	holding time.Duration
	clients int
	attack  string
}

func main() {
	var s settings
	flag.IntVar(&s.rounds, "rounds", 40, "rounds of CPU and throughput")
	flag.DurationVar(&s.slice, "slice", 100*time.Millisecond, "length of one measurement of CPU and throughput")
	flag.IntVar(&s.calm, "latency-rounds", 12, "rounds of latency")
	flag.DurationVar(&s.second, "latency-slice", 500*time.Millisecond, "length of one measurement of latency")
	flag.IntVar(&s.restarts, "restarts", 10, "restarts without a control plane")
	flag.BoolVar(&s.parts, "parts", false, "measure instead the CPU that each part of the sidecar's Envoy costs")
	flag.BoolVar(&s.attacks, "attacks", false, "measure nothing but the memory that attacks hold")
	flag.DurationVar(&s.holding, "holding", 20*time.Second, "how long each attack lasts")
	flag.IntVar(&s.clients, "clients", 1_000, "clients of each attack")
	flag.StringVar(&s.attack, "attack", "", "only attacks whose name has this in it")
	if role := process.Role(); role != "" {
		frame.Main("bench-devmesh "+role, func(ctx context.Context) error { return become(ctx, role, os.Args[1:]) })
		return
	}
	flag.Parse()
	frame.Main("bench-devmesh", func(ctx context.Context) error { return measure(ctx, s, os.Stdout) })
}
