// Package routegroup gives several sandboxes one routing key: it turns a
// SignadotRouteGroup into one RoutingConfig, whose members are all members of its
// sandboxes.
//
//	gather    who else claims the key, the sandboxes and their members, from the cache  gather.go
//	Decide    the RoutingConfig that there should be                                    decide.go  pure
//	act       write what is not so already                                              act.go
//	Conclude  the status, from that of the parts                                        decide_conclude.go  pure
//
// # Who is in the group
//
// The sandboxes that spec.sandboxNames names (their Kubernetes names), as they come
// and go: one may be named before it exists, and one that is made again under its name
// is in the group again. A name counts once. The members are found by the UID of the
// sandbox that made them. One that is being deleted, or whose sandbox is, has left the
// group: its sandbox waits for that before it takes the member away.
//
// A member is declared as soon as its object exists, ready or not: readiness shows in
// conditions and counters and never takes routing down. Requests to a member that
// cannot serve fail visibly, as they do under the key of its sandbox.
//
// # Two members that stand for one baseline
//
// One destination has to win: the member whose object is older, then the first by
// namespace and name (routing.Routing.Conflicts, the same rule as in the routing table).
// The condition NoConflicts says RoutingConflict, with the baseline, both members and
// their sandboxes, and so does Ready: a part of what was asked for is not done.
// Everything else is routed on, so RoutingReady stays.
//
// # The routing key
//
// Package routingkey says whose it is. A group without its key makes nothing and says
// RoutingKeyTaken, and takes over when the holder is gone. A group without sandboxes has
// its key, which then leads nowhere but to the baseline.
//
// # Ready
//
// Its reason is that of the first that stands in the way; its message tells of all that
// do, since who mends one would find the next only then.
//
// # The end
//
// A group has no finalizer: what it made belongs to it by owner reference, and where
// nothing collects garbage the controller removes what a group that is gone has left.
// The RoutingConfig has one, and withdraws the key from the routing log.
package routegroup
