// Package meshes measures how long a new sandbox takes until a real mesh routes its requests,
// with 500 others on the same Service: from the fact on the log to the answer of the adapter's
// write, and from there until a stock Envoy that istiod configures routes the first request. For
// comparison, in the same run, it measures an object of the same size that is applied with
// kubectl, and the time that the API server takes to change an annotation of it. It does so for a
// VirtualService, which has all sandboxes, and prints with how many that is reported as large and
// is full; and for HTTPRoutes, of which each sandbox has its own, so that nothing fills up.
//
// It is a test, since the mesh of tests/meshes is one of tests; `make bench-meshes` runs it, and
// prints the figures at its end.
package meshes
