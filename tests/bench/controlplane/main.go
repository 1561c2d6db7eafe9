// Command controlplane measures a control plane of two replicas with many clusters: how long a change takes from
// its PUT to the object in the cluster, with all replicas, while one is killed, and after outages of the network.
// It prints one line for each figure, and fails only if a write was lost.
//
// The replicas are programs of their own, on a PostgreSQL of the benchmark. The agents are in this process. Two of
// the clusters are real API servers, the others are stubs (package stub). All share the machine.
package main

import (
	"context"
	"flag"
	"os"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"switchyard.dev/tests/bench/frame"
)

func main() {
	l := load{outages: []time.Duration{30 * time.Second, 2 * time.Minute}}
	flag.StringVar(&l.program, "program", "", "the program controlplane")
	flag.IntVar(&l.clusters, "clusters", 20, "clusters")
	flag.IntVar(&l.real, "real", 2, "of them, real API servers")
	flag.IntVar(&l.sandboxes, "sandboxes", 1000, "sandboxes, evenly in all clusters")
	flag.IntVar(&l.perSecond, "changes", 10, "changes for each second")
	flag.DurationVar(&l.lasting, "for", 5*time.Minute, "how long to make changes")
	flag.IntVar(&l.writes, "writes", 100, "writes during each outage of the network")
	flag.BoolVar(&l.keep, "keep", false, "keep the logs, below the folder for temporary files")
	flag.Func("outage", "how long the network is away; each use adds an outage, and the first one replaces the default of 30s and 2m", durations(&l.outages))
	flag.Parse()
	log.SetLogger(logr.Discard()) // of the agents' caches
	frame.Main("controlplane", func(ctx context.Context) error { return l.run(ctx, os.Stdout) })
}

// durations returns the function of a flag that can be repeated.
func durations(to *[]time.Duration) func(string) error {
	given := false
	return func(text string) error {
		d, err := time.ParseDuration(text)
		if !given {
			given, *to = true, nil
		}
		if d > 0 {
			*to = append(*to, d)
		}
		return err
	}
}
