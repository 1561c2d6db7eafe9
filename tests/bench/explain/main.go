// Command explain injects faults into a cluster with a real log, a route server and sidecars, asks
// for each why its request is routed as it is (tests/explain), and prints how many causes were
// identified. Wrong answers go to standard error, with a seed that reproduces the case. It fails
// only when a case could not be created.
//
//	explain [-requests 200] [-seed n]
package main

import (
	"context"
	"flag"
	"math/rand/v2"

	"switchyard.dev/tests/bench/frame"
)

func main() {
	requests := flag.Int("requests", 200, "how many requests with a fault")
	seed := flag.Uint64("seed", rand.Uint64(), "makes the same faults again")
	flag.Parse()
	frame.Main("explain", func(ctx context.Context) error { return run(ctx, *requests, *seed) })
}
