// Package unsupported answers for the kinds of objects that are accepted and not acted on, by
// this version or in this installation. Without it such an object would have no status, and
// nothing would tell its author from whom to expect what.
//
//	Kinds     the kinds, and what to tell about each          kinds.go
//	Conclude  the object with its status: nothing is known    decide.go      pure
//	Reconcile writes that status                              reconciler.go
//
// Every condition of such an object is Unknown, with the reason NotSupportedYet. An
// object whose status another program writes is left alone: that program acts on it.
//
// A kind that gets a controller of its own loses its entry in Kinds and its name in the
// markers of Reconcile; everything else follows from those.
package unsupported
