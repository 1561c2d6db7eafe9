// Package routesgrpc serves the published routes API, routes.Routes, over gRPC:
// GetWorkloadRoutingRules, WatchWorkloadRoutingRules and GetClusterServices,
// with health and reflection beside them.
//
// A watch is one goroutine that holds the table it last told its client about.
// When the view has another one, it sends the difference: nothing is queued for
// a watcher, so one that stops reading holds its own stream and the one table,
// and when it reads again it is told what differs by then.
//
// Published clients die of things that the protocol does not forbid. What is
// kept for their sake: before SYNCED only ADD; SYNCED always, also for an empty
// set; no SYNCED and no answer from a table that is not whole (UNAVAILABLE, and
// they try again); route, baseline and destination sandbox in every op; the
// stream stays open; pings as often as every five seconds are welcome.
//
// There is no TLS and no authentication: the API is defined so, for use inside
// the cluster. Listeners are bounded instead (see options.go).
package routesgrpc
