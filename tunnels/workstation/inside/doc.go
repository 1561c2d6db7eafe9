// Package inside has a workstation reach names and addresses of a cluster as if it were in it: what
// `switchyard connect --privileged` does, beside what it does without.
//
//	the rules, and what the kernel has of them    redirect, hold
//	names                                         names
//	connections that the rules lead here          loopback
//
// Which addresses are the cluster's it is told by tunnel-api: the ranges that the operator's
// configuration has, and those of each Service. Addresses that the cluster's DNS answers for a
// name of the cluster, as of pods, are led too once somebody has asked for the name.
//
// Connections and queries of one user of the machine are redirected (Config.UID). A name of two parts
// is the cluster's unless its namespace has the name of a public top-level domain (names.Table).
//
// TCP is led, and queries for names; other UDP and ICMP are not, nor is IPv6 on macOS. No file is
// changed, and all of it ends with the process.
package inside
