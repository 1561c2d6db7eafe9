// Package contour has the real Contour for a comparison: its control plane, compiled from a
// pinned Go module, and the definitions of its own kinds.
//
//	Find    where both are, compiled first when that was not done yet    find.go
//	pinned  go.mod and go.sum, which say which version of everything     pinned/
//
// Compiling (tools/pinned) takes about five minutes on two cores, once.
package contour
