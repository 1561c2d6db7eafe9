// Package explain tests Explain from outside: on a real log, with a route server that follows it,
// asked over gRPC, and sidecars that speak delta xDS and acknowledge their routes. Into a cluster
// full of sandboxes it injects one fault after the other, each through the part that would really
// have it: as facts on the log, as a sidecar that stops acknowledging, as a route server with an
// incomplete log. The injector records the true cause; then the test asks, and the answer must
// name the cause, and the very events.
//
//	world    the cluster: log, route servers, sidecars          world.go, sidecar.go
//	fault    the kinds of faults, and the expected answers       faults.go
//	request  the many ways to ask the same question              request.go
//	check    the errors of an answer                             check.go
//
// tests/bench/explain prints how many causes of 200 are named.
package explain
