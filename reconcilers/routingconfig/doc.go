// Package routingconfig puts the members of a routing key onto the routing log.
//
//	gather    other objects with the key, and the members, from the cache  reconciler.go
//	Decide    the declaration, or why there is none                   decide.go  pure
//	Put       RoutingDeclared, before anything else is written
//	receipt   which proxies have acknowledged it                      receipt.go
//	meshes    the IstioRoutes and GatewayAPIRoutes                    mesh.go
//	Conclude  the status                                              decide_conclude.go  pure
//
// Traffic waits for a RoutingConfig, so its path to the log is short: one write that adds the
// finalizer, then the fact. Neither waits for the members, since the routing table joins declarations
// with workloads in any order.
//
// # Members
//
// A member is a ForkedWorkload, a SignadotExternalWorkload or a VirtualWorkload; this package uses only
// their common part (crdv1.Member), as written by the member's own controller. Duplicates count once; a
// member without kind, namespace or name is left out, and Accepted names it. A tunnel without baseline
// receives no requests, so nothing waits for it. status.processedWorkloads has every member with a
// known baseline; status.routeServer.routes only those with a route of their own, which a
// VirtualWorkload has not: its requests stay with the baseline.
//
// If two members replace one baseline, the older holds it, by the rule of the routing table
// (table.Claimant), and NoConflicts names both. That condition does not count for Ready, since the
// routing of all others works and continues. MiddlewaresApplied does count: this version applies none,
// so requests would silently skip the middlewares.
//
// # One key, one holder
//
// Of several RoutingConfigs with one key, the one that declares it keeps it, and the others report
// RoutingKeyTaken; until one does, it is the oldest (then the first by name). Only the holder withdraws
// a key. If another RoutingConfig waits for the key, the holder declares that one's instead, in the
// same step, so that no request falls to the baseline in between (handover.go).
//
// The annotation signadot.com/declared-key records, from before the first fact, which key this object
// has declared. The other objects find the holder by it even if this process crashes, and a key that is
// changed later can be withdrawn.
//
// # The receipt
//
// Ready waits for the condition ProxiesCurrent: every proxy that can see the key, and the sidecar of
// each baseline pod that has one, has acknowledged the log's facts about the key (package receipt
// queries them). Package routing defines the acknowledged content and how long an acknowledgement is
// valid, for this controller and for the owner of the RoutingConfig.
package routingconfig
