// Package switchyard is switchyard, the command-line client of the routing table: what
// is routed where, what was at any moment, and why. It is also a kubectl plugin,
// under the name kubectl-switchyard.
//
//	the root command, and its configuration for the others   here
//	what is routed: table, explain, diff, history, watch,
//	dry-run                                                  routing
//	what sidecars have: sidecars, wait, coverage             routing/sidecars
//	a whole log: log, audit, replay, bisect                  history
//	sandbox, routegroup, resourceplugin                      sandboxes
//	resource, logs                                           sandboxes/steps
//	connect, proxy, run, doctor                              local
//	one run: its flags, and the route server that it asks    command
//	a route server, by address or kubeconfig                 command/reach
//	a route server on a stored log, in this process          command/inprocess
//	versions, workloads and filters as people write them     command/parse
//	exit codes, and the code of each error                   command/exit
//	answers as text, JSON and YAML                           show
//
// Commands import the packages below them, and not each other's, except that history shows
// tables as routing does. Every command about routes asks switchyard.routing.v1 and shows the
// answer: the present, the past and a file are answered by the same code.
//
// What needs the controllers (turning an object into facts) or what they keep in a
// cluster (the witness of the log) is given by Config: this package knows the route
// server only.
package switchyard
