// Package lifecyclemethods runs the units of SignadotObjectLifecycleMethods: those of preStart when the
// object is created, those of postStop when it is being deleted.
//
//	gather     the pods of its units, and the kept values          gather.go
//	Decide     the next actions, and the status to record          decide.go   pure
//	           the conditions                                      decide_conclude.go
//	act        record names, create pods, record UIDs, delete      act.go
//	orphans    pods of deleted objects                             orphans.go
//	Watch      maps pods of units to their object                  watch.go
//
// Package workflows/engine decides the next step of a graph; package workflows/execunit has the pod of a
// unit and its results.
//
// # Progress
//
// It is recorded in the status, and nowhere else. The random name of a pod is recorded before the pod is
// created, and its UID and a signed grant after that, each with the resource version that was read as a
// precondition (decision record 0050). From then on the IO context server lets the pod run its script. No
// pod is adopted. A pod has the operator's finalizer until its end is recorded, so that no end is missed.
package lifecyclemethods
