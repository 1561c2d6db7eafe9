// Command devmesh measures what the sidecar costs the requests that pass it, with
// a real Envoy in a real pod's network: namespace, cable and redirection are those
// that a pod gets. It prints a table for people, and then one line for each
// number: its name, its value, its unit, and whether it meets its target. It never
// fails on a number: machines differ, and the reader judges. It fails when an
// answer comes from the wrong side. It needs root and two processors.
//
// Each place that is measured is a pod of its own with an application: with no sidecar; with a
// bare Envoy of one plain route, which is the floor; with the real sidecar (keeper, bootstrap,
// routes from a real xDS server) for workloads of 0, 10, 1,000 and 10,000 sandboxes; and with a
// bare Envoy that has a route with a regular expression for each sandbox. All run at once and are
// measured in turn, in slices of a fraction of a second, each beside a slice of the floor: other
// load of the machine affects both. The result is the median, over many rounds, of the comparison
// of such two.
//
// Requests come in three kinds, because they cost differently: without any header that could have
// a routing key; with a key that is unknown to the workload, as from users who test some other
// service; and with the key of one of its sandboxes, which goes to the fork and not to the
// application. The first two are the usual load of a baseline.
//
// With -parts the CPU of the sidecar's Envoy is measured without each of its parts,
// beside the one that has them all: where a request's time goes.
//
// All Envoys have one worker and share one processor; callers and applications
// have the other. The application with no sidecar has that of the Envoys.
package main
