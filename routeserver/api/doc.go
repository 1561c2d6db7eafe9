// Package api is our own API of the routing table, switchyard.routing.v1: what
// was routed where, at any moment, and why. protos/routing/v1/routing.proto says
// what each call takes and gives; this package is the one place that answers it,
// for gRPC and REST alike (routeserver/rest hands HTTP requests on to it).
//
//	errors, and their reasons                          failure
//	values of the table and the log as messages        messages (pure)
//	which table answers, by the At of a request        versions
//	what sidecars have acknowledged: Sidecars, Wait    receipts
//	the other calls, and the bounds of all             here
//
// Every answer names its version: position, time and content hash.
//
// # Streams
//
// A watch is one goroutine that holds the table it last told its client about
// and is woken when there is another: nothing is queued for a watcher, so a slow
// one skips versions, never truth. A stream whose client takes nothing for
// Config.WriteWithin is ended; the client goes on from the last position it got.
package api
