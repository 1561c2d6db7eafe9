// Package devmesh is the sidecar that routes requests into sandboxes: an Envoy
// next to the baseline, and the small program that keeps it.
//
// Only baselines get one. An init container redirects the workload's inbound
// ports to Envoy's listener; Envoy takes the routing key out of each request
// once, and either passes the request on to the application in the same pod or
// sends it to the sandbox that holds the key. Traffic that it cannot read (TLS,
// other TCP) passes untouched.
//
// What the pod must look like for this to work is in contract.go, for the
// injector to write and for the program to read.
package devmesh
