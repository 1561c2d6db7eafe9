// Command comparison measures the comparison of forks with baselines (workflows/comparison): on generated services with noise and
// faults at two prevalences, beside simple rules and traffic-diff; on forks without faults; and on HotROD and podinfo, unmodified and
// with 20 changes. It prints a line for each figure, and in standard error the explanations of wrong red ones.
//
//	comparison [-services 500] [-endpoints 40] [-seed n] [-kinds folder] [-real 500] [-workers 5]
package main

import (
	"context"
	"flag"

	"switchyard.dev/tests/bench/frame"
)

func main() {
	var o options
	flag.IntVar(&o.services, "services", 500, "how many generated services")
	flag.IntVar(&o.endpoints, "endpoints", 40, "endpoints of a service")
	flag.Uint64Var(&o.seed, "seed", 20261130, "makes the same services again")
	flag.StringVar(&o.kinds, "kinds", "", "folder with the kinds of noise and faults; empty: tests/comparison/kinds")
	flag.IntVar(&o.real, "real", 500, "how many comparisons of the unmodified applications, as root; 0: none")
	flag.IntVar(&o.workers, "workers", 5, "how many copies of the applications")
	flag.Parse()
	frame.Main("comparison", func(ctx context.Context) error { return run(ctx, o) })
}
