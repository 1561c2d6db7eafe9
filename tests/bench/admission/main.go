// Command admission measures what the injecting webhook costs those who create
// pods, and what it costs them when it is broken. It prints one line for each
// number: its name, its value, its unit, and whether it meets its target. It never
// fails on a number: machines differ, and the reader judges. It fails when a pod
// comes out in another form than its mode means.
//
// The API server and etcd are real, and so is the webhook: the manager, in a
// process of its own (this program again), with the certificate it makes and
// the chart's MutatingWebhookConfiguration, whose CA bundle it fills in. Only the
// Service is of type ExternalName and leads to this machine, since there is no
// network of pods here. Everybody shares the machine; how much others computed
// meanwhile is printed too.
//
// Bursts of pods with owning ReplicaSets are created as fast as several clients
// can, each over a connection of its own: without a webhook (direct), with one
// that is not asked for (silent), and with one that injects (injected), in turns.
// Then the webhook is broken: stopped (connections are refused), deaf (they are
// taken and nothing is said), dropped (they are not taken), and expired (the
// manager's clock is behind by 25 hours, so its certificate was over an hour ago).
//
// The webhook's handling time is what its own histogram says, from a request's
// headers to the answer. Where others keep the processors busy it is mostly the
// time in which nobody lets it run, so it is told for the quietest round as well.
//
// How late pods are is told by comparison with a burst without a webhook right
// before: the slowest with the slowest, the next with the next, and so on; the
// greatest difference counts. The bound on it is the API server's own deadline of
// 2 s, so it is told to a hundredth of a second.
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
