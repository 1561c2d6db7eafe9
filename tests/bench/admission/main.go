// Command admission measures the cost of the injecting webhook for clients that create pods, and
// its cost when it is broken. It prints one line for each number: its name, its value, its unit,
// and whether it meets its target. It never fails on a number: machines differ, and the reader
// judges. It fails when a pod comes out in another form than its mode means.
//
// The API server and etcd are real, and so is the webhook: the manager, in a process of its own
// (this program again), with the certificate it makes and the chart's
// MutatingWebhookConfiguration with its CA bundle. Only the Service is of type ExternalName and
// resolves to this machine, since there is no pod network. All processes share the machine; the
// processor time of others is printed too.
//
// Bursts of pods with owning ReplicaSets are created as fast as several clients can, each over a
// connection of its own: without a webhook (direct), with one that is not asked for (silent), and
// with one that injects (injected), in turns. Then the webhook is broken: stopped (connections
// are refused), deaf (they are accepted and not answered), dropped (they are not accepted), and
// expired (the manager's clock is behind by 25 hours, so its certificate expired an hour ago).
//
// The webhook's handling time is that of its own histogram, from a request's headers to the
// answer. Where other processes keep the processors busy it is mostly the time in which it is not
// scheduled, so it is printed for the quietest round as well.
//
// The delay of pods is determined by comparison with a burst without a webhook right before: the
// slowest with the slowest, the next with the next, and so on; the greatest difference counts.
// Its bound is the API server's own deadline of 2 s, so it is printed to a hundredth of a second.
package main

import (
	"context"
	"flag"
	"os"

	"switchyard.dev/tests/bench/frame"
	"switchyard.dev/tests/process"
)

// load is how much is created.
type load struct {
	pods, clients, rounds int
}

func main() {
	var l load
	flag.IntVar(&l.pods, "pods", 200, "pods of a burst")
	flag.IntVar(&l.clients, "clients", 8, "who create them at once, each over a connection of its own")
	flag.IntVar(&l.rounds, "rounds", 10, "bursts of each kind while the webhook works")
	flag.Parse()
	frame.Main("admission", func(ctx context.Context) error {
		if process.Role() == roleManager {
			return manage(ctx)
		}
		return measure(ctx, os.Stdout, l)
	})
}
