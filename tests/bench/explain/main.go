// Command explain injects faults into a cluster with a real log, a route server
// and sidecars, asks for each why its request goes where it goes (tests/explain),
// and prints of how many the cause was named. What was answered wrongly goes to
// standard error, with a seed that makes the case again. It fails only when a
// case could not be made.
//
//	explain [-requests 200] [-seed n]
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
)

func main() {
	requests := flag.Int("requests", 200, "how many requests with a fault")
	seed := flag.Uint64("seed", rand.Uint64(), "makes the same faults again")
	flag.Parse()
	if err := run(context.Background(), *requests, *seed); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
