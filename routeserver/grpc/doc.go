// Package routesgrpc serves the published routes API, routes.Routes, over gRPC:
// GetWorkloadRoutingRules, WatchWorkloadRoutingRules and GetClusterServices, with health and
// reflection.
//
// A watch is one goroutine that keeps the table it last sent to its client. When the table changes,
// it sends the difference. Nothing is queued per watcher: a client that stops reading costs its own
// stream and one table, and receives the accumulated difference when it reads again. Watchers are
// woken at most once per Pause, and their updates are computed and encoded once for all watchers
// with the same filter (feed.go), so many watchers and many changes cost little more than the
// writes.
//
// Published clients fail on behavior that the protocol allows. The server therefore guarantees:
// only ADD before SYNCED; SYNCED always, also for an empty set; UNAVAILABLE, which clients retry,
// instead of SYNCED or a response while the table is not whole; route, baseline and destination
// sandbox in every op; a stream that stays open; pings accepted as often as every five seconds.
//
// A response of GetWorkloadRoutingRules is encoded once for each table version and filter, and
// shared by all callers (package answers); a client that does not read it within 30 seconds is
// disconnected. It is one message. gRPC clients accept 4 MiB by default, which is 25,000 to 40,000
// rules with names of usual length; a larger response fails in the client with RESOURCE_EXHAUSTED,
// which the server cannot detect. Such a client can narrow its request by filters, raise its limit,
// or watch: a watch sends one rule per message, so it has no such limit, and neither has the same
// response over REST. GetClusterServices is limited in the same way.
//
// Published clients support neither TLS nor authentication: the API is defined so, for use inside
// the cluster. Instead, listeners are limited (see options.go), and responses to callers without a
// token can be restricted to their namespace (package door).
package routesgrpc
