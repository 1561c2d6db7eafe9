// Package keeper runs the sidecar's Envoy and stands between it and the control
// plane, so that the proxy starts, serves and restarts whether or not there is
// one.
//
//	route server ◄── delta xDS over TLS, pod's token ── relay ◄── delta xDS, unix socket ── Envoy
//	                                                      │
//	                                         routes on disk, and trust bundle
//
// # Why a relay
//
// Envoy accepts no connection before it has routes, and answers 404 when it gives up waiting.
// So it gets its routes from a socket in the pod, where they are always available. The relay
// requests its workload's routes from the route server, in parts so that a change is small,
// puts them together, checks that they have the version in their head, and passes them on as
// one. Parts that do not make the whole are refused, and requested again after a growing delay.
// If the route server has not answered half a second after the start, Envoy gets the routes
// that this pod's Envoy last accepted, read from disk; if there are none, or the file is
// damaged, routes that send everything to the baseline. From then on any routes from the route
// server replace them.
//
// So a pod that has never reached the control plane serves its baseline to all clients, and
// also for requests with a routing key: no key is known there. With sd-explain: 1, its
// responses contain sd-table: none.
//
// Envoy's answer about a version, accepted or refused and why, is forwarded to the route
// server; the relay never answers on its own. Accepted routes are on disk before that. When a
// stream begins the sidecar lists its versions, so that only the difference is sent: the parts
// that it has, and the head if Envoy has the routes of that head and no others are in flight to
// it. Each time that routes are offered to Envoy their version contains a new number (after
// "~"), so that an answer is never attributed to another offer of the same routes. Routes that
// are removed as a whole are kept: old routes are better than none.
//
// # Authentication of route servers
//
// A pod is created with the authorities that sign for route servers (devmesh.EnvTrust), and the
// sidecar connects only with TLS to servers that they sign for. Trusted route servers announce
// the authorities that follow; the last announcement is on disk next to the routes (trust.pem),
// for the next container of the pod. A sidecar that missed an announcement keeps its last
// routes, and logs which certificate it does not trust. A pod that was created by an earlier
// release has no authorities: its sidecar connects without TLS (tools/adr/0031).
//
// # Validation of routes
//
// Without TLS, any server that answers to the route server's name could send any routes. Of a
// head only its statements are used (the version of the table, the headers that carry keys),
// and it is refused when requests without a key would not go to the application in the pod. A
// part with a map that is looked up by anything but the routing key is refused, and so is an
// entry without a key; routes of other forms than those that package translate produces are put
// in quarantine, and Envoy never sees them (tools/adr/0030).
//
// # Quarantine
//
// Parts that Envoy refuses are withheld from it until they change, and the others are updated
// as usual (package assembly, to which the keeper passes Envoy's answers). As long as there are
// any, the head is refused with a reason that names the sandboxes, so a wait for this sidecar
// reports them with the reason.
//
// At its start the program logs the workload of the sidecar and the address of the route
// server, and "routes received" for the first routes. Changes are not logged, so silence after
// that is normal; after each time that the route server was unavailable, the program logs that
// it is back.
//
// # Start and termination
//
// Run starts Envoy and starts it again, within a second, when it ends. Readiness is
// Envoy's own: it takes connections.
//
// The kubelet sends SIGTERM to the sidecar only when the application has ended. So the
// container's preStop hook, at the start of the pod's end, runs this program a second time,
// which notifies the first over a unix socket (Drain). From then on every response closes its
// connection; a client of HTTP/2 gets GOAWAY with its next response, or within a second if none
// is due, and the final one a round trip later. New connections are accepted until only the
// sidecar listens in the pod, according to the kernel's table of sockets. Then Envoy accepts no
// more either, and ends, with all idle connections, as soon as no request is in progress:
// requests in progress then are those to a fork.
//
// An application that stops at once, or crashes, ends without notice: when the last socket on
// which it listened is closed, and no request is in progress, Envoy is killed, so that clients
// find their connections closed, and restarted when the application is back, or after a second.
//
// When ctx ends while the application continues, Envoy drains in the same way, and ends when no
// request is left and none has arrived for a second, not before DrainMin and not after
// DrainMax. Requests that take longer than the pod's grace period are cut off, as with the
// application.
package keeper
