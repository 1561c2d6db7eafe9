// Command xds measures what a change of the routes costs until the sidecars have
// it: from the call that records a fact in the log, through the table, the
// translation and the push, until the server has the acknowledgement of the last
// stream that the change concerns. It prints a table for people, and then one
// line for each number: its name, its value, its unit, and whether it meets its
// target. It never fails on a number: machines differ, and the reader judges. It
// fails when a client does not have the routes in the end.
//
// Each measurement has two processes of its own (this program again): the server, with the memory
// and processor time that are printed, and the clients, each stream with a connection of its own
// over loopback TCP, as each pod has. Clients read the version of each response, but not its
// content, and accept it. Both processes share the machine; the processor time of others is
// printed too.
//
// A change is a sandbox that appears on one workload, or disappears. In the first
// shape the streams and sandboxes are spread over fifty workloads, in the second
// all belong to one. While a stream has not answered, changes add up: it is then
// sent the newest, and that one acknowledgement counts for all of them.
//
// Beside each number is that of the snapshot cache and delta server of go-control-plane, from the
// same run: the same routes from the same table, as one resource for each workload, to the same
// clients. And where sidecars are measured, the server is measured again over TLS, beside the
// figure without.
package main

import (
	"flag"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"switchyard.dev/tests/bench/frame"
)

func main() {
	log.SetLogger(logr.Discard()) // what starts the API server would complain without one
	o := flags()
	flag.Parse()
	frame.Main("xds", o.play)
}
