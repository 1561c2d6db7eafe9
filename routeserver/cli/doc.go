// Package cli is switchyard, the command-line client of the routing table: what
// is routed where, what was at any moment, and why. It is also a kubectl plugin,
// under the name kubectl-switchyard.
//
//	exit codes, and what an error becomes                    exit.go
//	the root command, its flags                              cli.go
//	a route server: by address, kubeconfig, or in here       connect.go, local.go
//	versions and workloads as people write them              version.go, names.go
//	aligned tables, JSON and YAML; sentences                 print.go, grid.go, say.go
//	the commands                                             a file each
//
// Every command asks switchyard.routing.v1 and shows the answer. Those that work
// on an archive of a log (--archive, replay, bisect) run a whole route server on it
// in this process and ask that, so the present, the past and a file are answered by
// the same code.
//
// Names in a cluster may hold any character, and people's terminals obey some: in
// what is shown to people such characters are escaped. JSON and YAML have the
// names as they are, and equal bytes for equal answers on any machine.
//
// What needs the controllers (turning an object into facts) or what they keep in a
// cluster (the witness of the log) is given by Config: this package knows the route
// server only.
package cli
