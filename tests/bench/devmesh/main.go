// Command devmesh measures what the sidecar costs the requests that pass it, with
// a real Envoy in a real pod's network: namespace, cable and redirection are those
// that a pod gets. It prints a table for people, and then one line for each
// number: its name, its value, its unit, and whether it meets its target. It never
// fails on a number: machines differ, and the reader judges. It fails when an
// answer comes from the wrong side. It needs root and two processors.
//
// Each place that is measured is a pod of its own with an application: with no
// sidecar; with a bare Envoy of one plain route, which is the floor; with the real
// sidecar (keeper, bootstrap, routes from a real xDS server) for workloads of 0,
// 10, 1,000 and 10,000 sandboxes; and with a bare Envoy that has a route with a
// regular expression for each sandbox. All run at once and are measured in turn,
// in slices of a fraction of a second, each beside a slice of the floor: what the
// machine does meanwhile happens to both. What counts is the median, over many
// rounds, of what such two say of each other.
//
// All Envoys have one worker and share one processor; callers and applications
// have the other.
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
	flag.IntVar(&s.rounds, "rounds", 20, "rounds of CPU and throughput")
	flag.DurationVar(&s.slice, "slice", 250*time.Millisecond, "length of one measurement of CPU and throughput")
	flag.IntVar(&s.calm, "latency-rounds", 8, "rounds of latency")
	flag.DurationVar(&s.second, "latency-slice", time.Second, "length of one measurement of latency")
	flag.IntVar(&s.restarts, "restarts", 10, "restarts without a control plane")
	flag.BoolVar(&s.parts, "parts", false, "measure instead what each part of the sidecar's Envoy costs")
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
