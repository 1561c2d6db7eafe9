// Package routingconfig puts what a routing key reaches onto the routing log.
//
//	gather    who else has the key, and the members, from the cache   gather.go
//	Decide    the declaration, or why there is none                   decide.go  pure
//	Put       RoutingDeclared, before anything else is written
//	receipt   who has acknowledged it                                 receipt.go
//	Conclude  the status                                              decide_conclude.go  pure
//
// A RoutingConfig is what traffic waits for, so the way from its appearance to
// the log is short: one write that puts the finalizer on it, then the fact.
// Neither waits for the members: the routing table joins declarations with
// workloads in whatever order they come.
//
// # One key, one holder
//
// Of several RoutingConfigs with one key, the oldest (then the first by name)
// declares it, and the others say RoutingKeyTaken. When the holder goes, the
// next one takes over by itself. Only the holder withdraws a key.
//
// The key may change during life: the annotation signadot.com/declared-key
// remembers, from before the first fact, which key this object has declared, so
// that it can be withdrawn.
//
// # The receipt
//
// Ready waits for the condition ProxiesCurrent: every proxy that can see the key, and
// the one of each pod of a baseline that has one, has acknowledged what the log says
// of the key (package receipt asks). What was acknowledged is noted as a digest, in
// the annotation signadot.com/acknowledged, and holds until the digest changes: with
// the declaration, with the members and their Services, and when a fork becomes able
// to serve or unable. Neither pods that come later nor a route server that is away
// take it back. Whoever owns the RoutingConfig asks Known, which compares with the
// members as they are, because the condition may be older than they.
package routingconfig
