// Package lifecyclemethods runs the units of SignadotObjectLifecycleMethods: those of preStart
// once the object is there, those of postStop once it is being deleted.
//
//	gather     the pods of its units, and which values are kept    gather.go
//	Decide     what to do, and what to record                      decide.go   pure
//	           the conditions                                      decide_conclude.go
//	act        make pods, record, and then take away               act.go
//	orphans    pods of objects that are gone                       orphans.go
//	Watch      pods of units lead to their object                  watch.go
//
// What a graph does next is decided in package workflows/engine, how a unit's pod looks and
// what it tells in workflows/execunit.
//
// # Progress
//
// It lives in the status, and nowhere else. A pod is made, and then the status names it: from
// then on, and only while the version of the object that was read is the newest, the IO context
// server lets it run its script. A pod has our finalizer until its end is recorded, so that
// none goes unseen.
package lifecyclemethods
