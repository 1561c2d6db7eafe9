// Package unsupported writes the status of kinds of objects that are accepted but not acted on, by this
// version or in this installation. Without it such an object would have no status, and its author would
// not learn why it has no effect.
//
//	Kinds     the kinds, with the message for each            kinds.go
//	Conclude  the object with conditions that are Unknown     decide.go      pure
//	Reconcile writes that status                              reconciler.go
//
// Every condition of such an object is Unknown, with the reason NotSupportedYet. An object with a status
// that another program writes is left unchanged: that program acts on it.
//
// To give a kind its own controller, remove its entry in Kinds and its name in the markers of Reconcile;
// everything else is derived from those.
package unsupported
