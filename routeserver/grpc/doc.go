// Package routesgrpc serves the published routes API, routes.Routes, over gRPC:
// GetWorkloadRoutingRules, WatchWorkloadRoutingRules and GetClusterServices,
// with health and reflection beside them.
//
// A watch is one goroutine that holds the table it last told its client about.
// When there is another one, it sends the difference: nothing is queued for a
// watcher, so one that stops reading holds its own stream and the one table, and
// when it reads again it is told what differs by then. Watchers are not woken more
// often than every Pause, and what they are told is worked out and encoded once
// for all that have the same filter (feed.go): many watchers and many changes
// cost little more than the writes.
//
// Published clients die of things that the protocol does not forbid. What is
// kept for their sake: before SYNCED only ADD; SYNCED always, also for an empty
// set; no SYNCED and no answer from a table that is not whole (UNAVAILABLE, and
// they try again); route, baseline and destination sandbox in every op; the
// stream stays open; pings as often as every five seconds are welcome.
//
// An answer of GetWorkloadRoutingRules is written once for each version of the table and
// each filter, and shared by all who ask (package answers); a client that does not take
// it within half a minute loses its connection. It is one message. Clients of gRPC take 4 MiB
// unless told otherwise, which is 25,000 to 40,000 rules with names of usual
// length; a larger answer ends there as RESOURCE_EXHAUSTED, said by the client
// itself, and the server cannot know. Such a client narrows its request by filters,
// raises its limit, or watches: a watch sends one rule for each message, so nothing
// bounds it, nor the same answer over REST. GetClusterServices is bounded in the
// same way.
//
// Published clients know neither TLS nor authentication: the API is defined so, for use inside
// the cluster. Listeners are bounded instead (see options.go), and answers narrowed to the
// namespace of who shows no token, where that is wanted (package door).
package routesgrpc
