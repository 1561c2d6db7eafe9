// Package argo has the real Argo Rollouts for tests: the controller, compiled from a
// pinned Go module, and the definitions of its kinds.
//
//	Find    where both are, compiled first when that was not done yet    find.go
//	pinned  go.mod and go.sum, which say which version of everything     pinned/
//
// What was compiled is kept in the cache under a name made from the pins and the
// version of Go, so that a changed pin never meets an old program. Compiling takes
// about five minutes on two cores, once; the modules come through the Go proxy.
package argo
