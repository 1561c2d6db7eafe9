// Package api implements the operator's own API of the routing table, switchyard.routing.v1: routes
// at any time, and the reasons for them. protos/routing/v1/routing.proto documents the parameters
// and results of each call; this package is its only implementation, for gRPC and REST alike
// (routeserver/rest forwards HTTP requests to it).
//
//	errors, and their reasons                          failure
//	values of the table and the log as messages        messages (pure)
//	which table answers, by the At of a request        versions
//	acknowledgements of sidecars: Sidecars, Wait       receipts
//	the other calls, and the limits of all             here
//
// Every response names its version: position, time and content hash.
//
// # Streams
//
// A watch is one goroutine that keeps the table it last sent to its client and is woken when there
// is a newer one: nothing is queued per watcher, so a slow one skips versions but never misses a
// change. If the client does not read for Config.WriteWithin, its stream is closed; it resumes from
// the last position it received.
package api
