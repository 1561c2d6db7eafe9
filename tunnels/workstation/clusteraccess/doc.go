// Package clusteraccess makes names and addresses of a cluster reachable from a workstation as if it
// were in the cluster. It implements the additional part of `switchyard connect --privileged`.
//
//	the rules, and their state in the kernel      redirect, redirector
//	names                                         names
//	redirected connections                        loopback
//
// It gets the addresses of the cluster from tunnel-api: the ranges of the operator's
// configuration, and the addresses of each Service. Addresses that the cluster's DNS returns for
// a name of the cluster, as of pods, are redirected too once the name has been queried.
//
// Connections and queries of one user of the machine are redirected (Config.UID). A name of two
// parts is the cluster's unless its namespace has the name of a public top-level domain
// (names.Table).
//
// TCP and DNS queries are redirected; other UDP and ICMP are not, nor is IPv6 on macOS. No file
// is changed, and all of it ends with the process.
package clusteraccess
