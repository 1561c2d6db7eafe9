// Package virtualworkload reconciles the members of sandboxes that have no pods of their own: for one
// routing key, middlewares run in front of a baseline, and requests that they do not answer reach the
// baseline. trafficwatch is the only one that this version runs, so all requests do (the RoutingConfig
// reports it if others are requested).
//
//	gather    the baseline, its Services and pods, from the cache   reconciler.go
//	Decide    whether it exists, and which of its ports count       decide.go           pure
//	Conclude  the resulting status                                  decide_conclude.go  pure
//	captures  the second Services while its requests are recorded   captures.go
//	Observed  the fact for the log                                  reconciler.go       pure
//
// # The fact
//
// WorkloadObserved is on the routing log as long as the baseline has been seen. It names the Services of
// the baseline and their ports, including those of old pods during a rollout, and no created Service,
// unless its requests are recorded (decision record 0092). So the routing table has a rule for the key without a destination (table.Rule.Kept,
// decision record 0015): it shows that the key is in use and its holder, and requests still reach the
// baseline.
//
// # The status
//
// It is that of a fork without a workload. status.routingConfig.services has each Service of the baseline
// with its ports and an empty `to`, which means that no request is diverted, or the second Service by which it is recorded. It is not
// the Service of the baseline itself: a client that redirected requests to it would cause a loop.
//
// When the baseline is deleted, its last known state stays until it is re-created, because requests are
// still routed to it. When the spec changes to another baseline that does not exist, there is no known
// state, and the fact on the log is withdrawn; the same applies to a Rollout with an unknown pod template.
//
// # Requirements
//
// There is no finalizer, as with all members: see package member. Watch needs the indexes of packages
// baseline and apply.
package virtualworkload
