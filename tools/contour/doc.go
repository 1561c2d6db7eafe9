// Package contour provides Contour for a comparison: its control plane, compiled from a pinned Go
// module, and its CustomResourceDefinitions.
//
//	Find    returns both, and compiles Contour if necessary    find.go
//	pinned  go.mod and go.sum with all versions                pinned/
//
// Compiling (tools/pinned) takes about five minutes on two cores, once.
package contour
