// Package routegroup gives several sandboxes one routing key: it turns a SignadotRouteGroup into one
// RoutingConfig with all members of its sandboxes.
//
//	gather    other claimants of the key, sandboxes and members, from the cache         reconciler.go
//	Decide    the desired RoutingConfig                                                 decide.go  pure
//	act       write the differences                                                     act.go
//	Conclude  the status, from that of the parts                                        decide.go  pure
//
// # Members of the group
//
// The group contains the sandboxes listed in spec.sandboxNames (their Kubernetes names) that exist: a
// sandbox can be listed before it is created, and one that is re-created under its name is in the group
// again. Duplicate names are ignored. Members are found by the UID of the sandbox that owns them. A member
// is removed from the group when it or its sandbox is being deleted: the sandbox waits for that before it
// deletes the member.
//
// A member is declared as soon as its object exists, ready or not: readiness is reported in conditions and
// counters and never removes routing. Requests to a member that cannot serve fail visibly, as they do with
// the key of its sandbox.
//
// # Two members for one baseline
//
// Only one destination can be used: the member with the older object, then the first by namespace and name
// (routing.Routing.Conflicts, the same rule as in the routing table). The condition NoConflicts has the
// reason RoutingConflict and names the baseline, both members and their sandboxes, and so does Ready,
// because the spec is not fully applied. Everything else is routed, so RoutingReady stays True.
//
// # The routing key
//
// Package routingkey decides which claimant has the key. A group without its key creates nothing, reports
// RoutingKeyTaken, and takes over when the holder is deleted. A group without sandboxes has its key;
// requests with it reach the baseline.
//
// # Ready
//
// Its reason is that of the first problem; its message lists all problems, so that they can be fixed in
// one step.
//
// # Deletion
//
// A group has no finalizer: its RoutingConfig has an owner reference, and in a cluster without garbage
// collection the controller deletes the RoutingConfig of a deleted group. The RoutingConfig has a
// finalizer, and withdraws the key from the routing log.
package routegroup
