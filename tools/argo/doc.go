// Package argo provides Argo Rollouts for tests: the controller, compiled from a pinned Go module,
// and its CustomResourceDefinitions.
//
//	Find    returns both, and compiles the controller if necessary    find.go
//	pinned  go.mod and go.sum with all versions                       pinned/
//
// Compiling (tools/pinned) takes about five minutes on two cores, once.
package argo
