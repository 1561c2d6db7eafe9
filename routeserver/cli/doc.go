// Package cli is switchyard, the command-line client of the routing table: what
// is routed where, what was at any moment, and why. It is also a kubectl plugin,
// under the name kubectl-switchyard.
//
//	the root command, and what it hands the others           here
//	what is routed: table, explain, diff, history, watch,
//	dry-run                                                  routes
//	what sidecars have: sidecars, wait, coverage             sidecars
//	a whole log: log, audit, replay, bisect                  logs
//	one run: its flags, and the route server that it asks    session
//	a route server, by address or kubeconfig                 reach
//	a route server on a stored log, in this process          inprocess
//	answers as text, JSON and YAML                           show
//	versions, workloads and filters as people write them     parse
//	exit codes, and what an error becomes                    exit
//
// Commands import what is below them, and none another one's package, but that logs shows
// tables as routes does. Every command asks switchyard.routing.v1 and shows the answer: the
// present, the past and a file are answered by the same code.
//
// The commands sandbox, routegroup and resourceplugin are the program's own (cmd/switchyard/specs), since
// they ask a cluster and no route server.
//
// What needs the controllers (turning an object into facts) or what they keep in a
// cluster (the witness of the log) is given by Config: this package knows the route
// server only.
package cli
