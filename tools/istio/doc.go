// Package istio has the real Istio for tests: istiod, compiled from a pinned Go module, and
// the definitions of the kinds that it and the Gateway API have; and what a Kubernetes node
// needs to run it as its users do.
//
//	Find      where they are, compiled first when that was not done yet    find.go
//	FindNode  Istio's charts, and what its images hold                     node.go
//	Pack      images of that, without a registry                           images.go
//	pinned    go.mod and go.sum, which say which version of everything     pinned/
//
// Compiling (tools/pinned) takes about ten minutes on two cores, once, and for a node five more.
package istio
