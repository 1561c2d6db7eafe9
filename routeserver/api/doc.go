// Package api is our own API of the routing table, switchyard.routing.v1: what
// was routed where, at any moment, and why. protos/routing/v1/routing.proto says
// what each call takes and gives; this package is the one place that answers it,
// for gRPC and REST alike (routeserver/rest hands HTTP requests on to it).
//
// # Which table answers
//
// Calls that take an At are answered from the newest table, from the newest once
// it has reached a position or everything recorded so far, or from an older one
// that History rebuilds. Every answer names its version: position, time and
// content hash. From a table that is not whole nothing is answered.
//
// # Streams
//
// A watch is one goroutine that holds the table it last told its client about
// and is woken when there is another: nothing is queued for a watcher, so a slow
// one skips versions, never truth. A stream whose client takes nothing for
// Config.WriteWithin is ended; the client goes on from the last position it got.
//
// # Receipts
//
// Sidecars and Wait say what DevMesh sidecars have acknowledged, over all route
// servers. See Sidecar and the comment of Server.Wait for what that proves and
// what it does not.
//
// # Errors
//
// All are google.rpc.Status with an ErrorInfo of the domain switchyard.dev; the
// reasons are constants of this package. See errors.go.
package api
