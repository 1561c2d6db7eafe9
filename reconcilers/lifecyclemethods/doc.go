// Package lifecyclemethods runs the units of SignadotObjectLifecycleMethods: those of preStart
// once the object is there, those of postStop once it is being deleted.
//
//	gather     the pods of its units, and which values are kept    gather.go
//	Decide     what to do, and what to record                      decide.go   pure
//	           the conditions                                      decide_conclude.go
//	act        record names, create pods, record UIDs, delete      act.go
//	orphans    pods of objects that are gone                       orphans.go
//	Watch      pods of units lead to their object                  watch.go
//
// What a graph does next is decided in package workflows/engine, how a unit's pod looks and
// what it tells in workflows/execunit.
//
// # Progress
//
// It lives in the status, and nowhere else. The random name of a pod is recorded before the pod is
// created, and its UID and a signed grant after that, each while the version of the object that was
// read is the newest (decision record 0050). From then on the IO context server lets the pod run its
// script. No pod is adopted. A pod has the operator's finalizer until its end is recorded, so that
// none goes unseen.
package lifecyclemethods
