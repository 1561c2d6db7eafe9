// Package meshes is what the adapters of all meshes share. An adapter is a renderer: it says
// what is to be written for the routing table as it is, and writes it.
//
//	Follower  follows the routing log, has a renderer look, tells what came of it  follower.go
//	Asked     what a table asks meshes for, by Service and routing key             asked.go
//	Report    what is known of one such                                            report.go
//	Words     what an IstioRoute or a GatewayAPIRoute says of it                   words.go
package meshes
