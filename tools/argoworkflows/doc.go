// Package argoworkflows provides Argo Workflows for a comparison: its controller and its executor,
// compiled from a pinned Go module, and the manifests that install it.
//
//	Find    returns them, and compiles them if necessary    find.go
//	pinned  go.mod and go.sum with the version              pinned/
//
// It is compiled in a copy of its module, with the versions in its own go.mod. Compiling
// (tools/pinned) takes about five minutes on two cores, once.
package argoworkflows
