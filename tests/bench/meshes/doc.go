// Package meshes measures how long a new sandbox takes until a real mesh leads its requests, with
// 500 others on the same Service: from the fact on the log to the answer of the adapter's write,
// and from there until a stock Envoy that istiod configures leads the first request. Beside it, in
// the same run, stand an object of the same size that somebody writes by hand, with kubectl, and
// what the API server alone takes to change an annotation of it. It does so for a VirtualService,
// in which all sandboxes are, and says with how many that is told to be large and is full; and for
// HTTPRoutes, of which each sandbox has its own, so that nothing fills up.
//
// It is a test, since the mesh of tests/meshes is one of tests; `make bench-meshes` runs it, and
// prints the figures at its end.
package meshes
