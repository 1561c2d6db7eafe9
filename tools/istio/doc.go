// Package istio has the real Istio for tests: istiod, compiled from a pinned Go module, and
// the definitions of the kinds that it and the Gateway API have.
//
//	Find    where they are, compiled first when that was not done yet    find.go
//	pinned  go.mod and go.sum, which say which version of everything     pinned/
//
// Compiling (tools/pinned) takes about ten minutes on two cores, once.
package istio
