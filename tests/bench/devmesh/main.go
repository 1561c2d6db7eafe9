package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"switchyard.dev/tests/podnet"
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
}

func main() {
	var s settings
	flag.IntVar(&s.rounds, "rounds", 40, "rounds of CPU and throughput")
	flag.DurationVar(&s.slice, "slice", 100*time.Millisecond, "length of one measurement of CPU and throughput")
	flag.IntVar(&s.calm, "latency-rounds", 12, "rounds of latency")
	flag.DurationVar(&s.second, "latency-slice", 500*time.Millisecond, "length of one measurement of latency")
	flag.IntVar(&s.restarts, "restarts", 10, "restarts without a control plane")
	flag.BoolVar(&s.parts, "parts", false, "measure instead the CPU that each part of the sidecar's Envoy costs")
	be := flag.String("be", "", "be one of the processes of a place (this program starts itself so)")
	flag.Parse()
	run := func() (int, error) { return isolated(context.Background(), s) }
	if *be != "" {
		run = func() (int, error) { return 0, become(*be, flag.Args()) }
	} else if podnet.Inside() {
		run = func() (int, error) { return 0, measure(context.Background(), s, os.Stdout) }
	}
	code, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-devmesh:", err)
		code = 1
	}
	os.Exit(code)
}
