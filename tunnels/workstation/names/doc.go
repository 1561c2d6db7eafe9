// Package names is a resolver for a workstation: it answers names of the cluster, and forwards
// other queries to the resolvers of the machine.
//
//	which names are the cluster's, and their addresses              Table
//	the resolvers that the machine has, as they change             System
//	queries over UDP and TCP                                       Server
//
// Names of Services are answered from memory. Other names of the cluster, such as the pods of a
// Service without an address, are resolved by the cluster's own DNS, through the tunnel.
package names
