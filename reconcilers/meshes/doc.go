// Package meshes contains code shared by the mesh adapters. An adapter renders the routing table into
// mesh objects and writes them.
//
//	Follower  follows the routing log, runs the adapter, triggers status updates  follower.go
//	Asked     the routing that a table requires, by routing key and Service       asked.go
//	Report    the state of a Target in a mesh                                     report.go
//	Words     the conditions of an IstioRoute or a GatewayAPIRoute                words.go
//	Kind      the controller that writes them                                     kind.go
package meshes
