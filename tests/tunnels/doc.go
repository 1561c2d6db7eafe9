// Package tunnels measures over time, with real parts, that a tunnel forwards every request to
// its workstation, or to none:
//
//   - Faults: the tunnel proxies and the API server are killed in turn under load. No request
//     with a key reaches the baseline or another's workstation, none without one fails, and
//     every connection is in the audit, as counted at both ends.
//   - Developers: two developers with rights of their own work on one baseline. Their sandboxes
//     come and go, their workstations disconnect and come back, and no request is misrouted.
//     Nothing is left in the end.
//
// Everything runs in a network namespace of its own: an API server with etcd, the programs of the
// event bus, the route server, the manager, tunnel-api and the tunnel proxies, a pod of the baseline
// with the real sidecar, and a process for each workstation. Proxies and tunnel-api are in pods of
// their own, which are network namespaces too.
//
//	world         all of it                                               world.go, proxy.go
//	Station       a workstation with its local servers                    station.go
//	load          requests, and who answered them                         load.go
//	capture       what kube-proxy does, and servers in the cluster: both  capture/
//	              see connections from outside; the audit beside that
//
// # Counting
//
// The captures are outside of the product. The replacement of kube-proxy, which connects to
// proxies, notes each connection that brought an answer, by its own address; the destinations of
// workstations note each connection that brought a byte, each at an address that is used only
// once. Each of these has to be in the audit, under that address, once. A connection that was
// accepted and brought nothing was refused, and need not be there.
//
// Users call Isolate first in main; it needs root. The commands are in cmd.
package tunnels
