// Package deliveries runs what delivers the objects of a control plane to clusters: replicas with their store, link
// and delivery, and agents at API servers, as the chart sets them up.
//
//	Prepare    the rights, policies and namespaces of an agent in a cluster   cluster.go
//	RunAgent   the agent                                                      cluster.go
//	Replica    a replica without its REST API                                 replica.go
//	Whole      the configuration of a whole control plane                     whole.go
//	Front      the network between them, which can be cut                     front.go
package deliveries
