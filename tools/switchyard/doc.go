// Package switchyard is switchyard, the command line: routes now and at any moment, sandboxes, resource
// plugins, and workloads on a workstation. It is also a kubectl plugin, kubectl-switchyard.
//
//	the root command                                         here
//	routes: table, explain, diff, history, watch,
//	dry-run                                                  routing
//	sidecars: sidecars, wait, coverage                       routing/sidecars
//	a whole log: log, audit, replay, bisect                  history
//	sandbox, routegroup, resourceplugin                      sandboxes
//	resource, logs                                           sandboxes/steps
//	cluster                                                  clusters
//	connect, proxy, run, doctor                              local
//	one run: its flags, and the route server that it asks    command
//	a route server, by address or kubeconfig                 command/reach
//	a control plane                                          command/plane
//	a route server on a stored log, in this process          command/inprocess
//	versions, workloads and filters as people write them     command/parse
//	exit codes, and the code of each error                   command/exit
//	answers as text, JSON and YAML                           show
//
// Commands import the packages below them, and not each other's, except that history shows
// tables as routing does. Every command about routes asks switchyard.routing.v1 and shows the
// answer: the present, the past and a file are answered by the same code.
//
// The operations are not here: each is in the component of its subject (record 57), and a command
// parses flags, calls it and shows the result.
package switchyard
