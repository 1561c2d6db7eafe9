// Package tunnels shows over time, with real parts, that a tunnel leads every request to whom it
// is for, or to nobody:
//
//   - Faults: the tunnel proxies and the API server are killed in turn under load. No request
//     with a key reaches the baseline or another's workstation, none without one fails, and
//     every connection is in the audit, as counted by those who make and take them.
//   - Developers: two developers with rights of their own work on one baseline. Their sandboxes
//     come and go, their workstations disconnect and come back, and no request is led astray.
//     Nothing is left in the end.
//
// Everything runs in a network namespace of its own: an API server with etcd, the programs of the
// event bus, the route server, the manager, tunnel-api and the tunnel proxies, a pod of the baseline
// with the real sidecar, and a process for each workstation. Proxies and tunnel-api are in pods of
// their own, which are network namespaces too.
//
//	world         all of it                                               world.go, proxy.go
//	Station       a workstation with its local servers                    station.go
//	load          requests, and whom they reached                         load.go
//	capture       what kube-proxy does, and servers in the cluster: who    capture/
//	              sees connections from outside; the audit beside that
//
// # What is counted
//
// The captures are outside of the product: whoever connects to a proxy in place of the cluster's
// nodes notes each connection that brought an answer, by its own address; and the destinations of
// workstations note each connection that brought a byte, each at an address that is asked for only
// once. Each of these has to be in the audit, under that address, once. A connection that was
// accepted and brought nothing has been refused, and need not be there.
//
// Users call Isolate first in main; it needs root. The commands are in cmd.
package tunnels
