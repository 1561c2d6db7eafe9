// Package local runs the scenario of a service on a workstation: HotROD in a cluster, and its
// customer service as a process on a developer's machine that receives the requests with the
// sandbox's key.
//
// The workstation is a network namespace with its own resolver (host.go). Of the cluster it reaches
// only the API server's address, by a link that the scenario cuts. tests/e2e uses the same machine
// (Workstation), sandbox and requests (Ask, Watcher).
package local
