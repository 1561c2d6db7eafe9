// Package virtualworkload keeps the members of sandboxes that have no pods of their
// own: something stands before a baseline for one routing key, and requests that it
// leaves unanswered reach the baseline. This version has nothing that would stand
// there, so all of them do (the RoutingConfig says so where middlewares are asked for).
//
//	gather    the baseline, its Services and pods, from the cache   gather.go
//	Decide    whether it is there, and which of its ports count     decide.go           pure
//	Conclude  what is true now: the status                          decide_conclude.go  pure
//	Observed  the fact for the log                                  fact.go             pure
//
// # The fact
//
// WorkloadObserved is on the routing log as long as the baseline has been seen. It
// names the Services of the baseline and their ports, those of old pods too while it is
// rolled out, and none that was made: nothing is. So the routing table has a rule for the
// key that leads nowhere (table.Rule.Kept, decision record 0015): everybody can say that
// the key is held, and by whom, and the requests stay where they are.
//
// # The status
//
// It is that of a fork without fork. In status.routingConfig.services each Service of
// the baseline stands with its ports, and `to` is empty, which says that nothing was
// made to lead requests away. The Service of the baseline itself does not stand there:
// a reader that sent requests "to" it would send them around in a circle.
//
// When the baseline goes, what was seen of it stays until it comes back: its requests
// are still to go there. When the spec names another baseline that is not there, nothing
// has been seen, and what was on the log is withdrawn; a Rollout of which nobody knows what
// its pods are made from has not been seen either.
//
// # What users owe
//
// There is no finalizer, as with all members: see package member. Watch needs the
// indexes of packages baseline and apply.
package virtualworkload
