// Package routingconfig puts what a routing key reaches onto the routing log.
//
//	gather    who else has the key, and the members, from the cache   gather.go
//	Decide    the declaration, or why there is none                   decide.go  pure
//	Put       RoutingDeclared, before anything else is written
//	receipt   who has acknowledged it                                 receipt.go
//	meshes    what meshes are asked for, who tell what they do of it  mesh.go
//	Conclude  the status                                              decide_conclude.go  pure
//
// A RoutingConfig is what traffic waits for, so the way from its appearance to
// the log is short: one write that puts the finalizer on it, then the fact.
// Neither waits for the members: the routing table joins declarations with
// workloads in whatever order they come.
//
// # Members
//
// A member is a ForkedWorkload, a SignadotExternalWorkload or a VirtualWorkload; what
// counts of it is what they share (crdv1.Member), as its own controller has written it.
// One that is named twice counts once; one that lacks kind, namespace or name is left
// out, and Accepted says which. A tunnel without baseline has no requests that could be
// led to it, so nothing waits for it. status.processedWorkloads has every member whose
// baseline was seen; status.routeServer.routes only those that lead somewhere, which a
// VirtualWorkload does not: its requests stay with the baseline.
//
// Two members that stand for one baseline: the older holds it, by the rule of the routing
// table (table.Claimant), and NoConflicts names both. That does not count for Ready, for
// the routing of all others works, and stays. MiddlewaresApplied does count: this version
// applies none, so requests would silently skip what they were to pass.
//
// # One key, one holder
//
// Of several RoutingConfigs with one key, the one that declares it keeps it, and the
// others say RoutingKeyTaken; where none does yet it is the oldest (then the first by
// name). Only the holder withdraws a key, and not when another one waits for it: then
// it declares that one's in the same step, so that no request falls to the baseline
// in between (handover.go).
//
// The annotation signadot.com/declared-key remembers, from before the first fact, which
// key this object has declared: by it the others know the holder, whatever becomes of
// this process, and a key that is changed during life can be withdrawn.
//
// # The receipt
//
// Ready waits for the condition ProxiesCurrent: every proxy that can see the key, and
// the one of each pod of a baseline that has one, has acknowledged what the log says
// of the key (package receipt asks). What that is, and how long an acknowledgement holds,
// package routing decides, for this controller and for whoever owns the RoutingConfig.
package routingconfig
