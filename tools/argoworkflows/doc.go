// Package argoworkflows has the real Argo Workflows for a comparison: its controller and its
// executor, compiled from a pinned Go module, and the manifests that install it.
//
//	Find    where they are, compiled first when that was not done yet    find.go
//	pinned  go.mod and go.sum, which say which version                   pinned/
//
// It is compiled in a copy of its module, with the versions that its own go.mod has. Compiling
// (tools/pinned) takes about five minutes on two cores, once.
package argoworkflows
