// Package keeper runs the sidecar's Envoy and stands between it and the control
// plane, so that the proxy starts, serves and restarts whether or not there is
// one.
//
//	route server ◄── delta xDS over TLS, pod's token ── relay ◄── delta xDS, unix socket ── Envoy
//	                                                      │
//	                                         routes on disk, and whom to trust
//
// # Why a relay
//
// Envoy takes no connection before it has routes, and answers 404 when it gives
// up waiting. So it gets its routes from a socket in the pod, where there always
// are some. The relay asks the route server for its workload's routes, in parts so
// that a change is small, puts them together, checks that they have the version that
// their head says, and hands them on as one. Parts that do not make the whole are
// refused, and asked for anew after a pause that grows. If the route server has not answered half a second
// after the start, Envoy gets the routes that this pod's Envoy last accepted, read from
// disk; if there are none, or the file is damaged, routes that lead everything to
// the baseline. From then on whatever the route server sends replaces them.
//
// So a pod that has never reached the control plane serves its baseline to
// everybody, and a request with a routing key too: no key is known there. Asked
// with sd-explain: 1, its answers say sd-table: none.
//
// What Envoy says about a version, accepted or refused and why, goes back to the
// route server; the relay never answers in its place. What Envoy accepts is on disk
// before that. What the sidecar has is stated when a stream begins, so that only the
// difference comes: the parts that are here, and the head if Envoy has the routes that
// it stands for and none other are on their way to it. Each time that routes are put
// before Envoy their version says so (a number after "~"), so that no answer is taken
// for one to the same routes at another time. Routes that are removed as a whole stay:
// old routes are better than none.
//
// # Who answers
//
// A pod is made with the authorities that vouch for route servers (devmesh.EnvTrust), and the
// sidecar speaks TLS with those, or with nobody. Route servers that it trusts tell it of the
// authorities that follow; what they said last is on disk beside the routes (trust.pem), for
// the next container of the pod. A sidecar that no route server could tell in time keeps its
// last routes, and says in the log whom it does not trust. A pod that an earlier release has
// made has no authorities: its sidecar speaks plain (tools/adr/0031).
//
// # Whose routes
//
// Whoever answers at the route server's name could send any, where that is spoken to plain. Of a head only what it says
// is taken (which table it is, which headers carry keys), and it is refused when requests
// without a key would not go to the application in the pod. A part whose map is looked up
// by anything but the routing key is refused, and so is an entry without a key; routes of
// other forms than those that package translate makes are put in quarantine, and Envoy
// never sees them (tools/adr/0030).
//
// # Quarantine
//
// Parts that Envoy refuses are kept from it until they change, and the others go on being
// updated (package assembly, to which the keeper only says what Envoy says of a whole). As
// long as any are, the head is refused with a reason that names the sandboxes, so waits for
// this sidecar name it and say why.
//
// The log says at its start for which workload the sidecar is and where it looks
// for the route server, and "routes received" for the first routes. Changes are
// not told of, so silence after that is good; after each time that the route
// server was away, the log says that it is back.
//
// # Life and death
//
// Run starts Envoy and starts it again, within a second, when it ends. Readiness is
// Envoy's own: it takes connections.
//
// The kubelet tells the sidecar to end only when the application has ended. So the
// container's preStop hook, at the start of the pod's end, runs this program once more,
// which tells the first over a unix socket (Drain). From then on every answer closes its
// connection; a client of HTTP/2 gets GOAWAY with its next answer, or within a second if
// none is due, and the final one a round trip later. New connections are taken until
// nobody but the sidecar listens in the pod, which the kernel's table of sockets says.
// Then Envoy takes no more either, and ends, with all connections that are idle, as soon
// as nothing is under way: what is under way then is on its way to a fork.
//
// An application that stops at once, or crashes, is gone before anybody has said so: when
// the last socket goes on which it listened, and nothing is under way, Envoy is killed, so
// that clients find their connections closed, and started again when the application is
// back, or after a second.
//
// When ctx ends beside an application that lives on, Envoy drains in the same way, and
// ends when no request is left and none has come for a second, not before DrainMin and not
// after DrainMax. What takes longer than the pod's grace period is cut off, as it is for the
// application.
package keeper
