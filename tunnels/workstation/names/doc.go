// Package names is a resolver for a workstation: names of the cluster it answers, and others it
// asks the resolvers of the machine for.
//
//	which names are the cluster's, and their addresses              Table
//	the resolvers that the machine has, as they change             System
//	queries over UDP and TCP                                       Server
//
// Names of Services are answered from memory. What memory does not have, as the pods of a Service
// without an address, is asked of the cluster's own DNS, through the tunnel.
package names
