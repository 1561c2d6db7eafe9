// Package local tells the story of a service on a workstation: HotROD in a cluster, its customer
// service as a process of a developer's machine, which requests with the sandbox's key reach.
//
// The workstation is a network namespace with a resolver of its own (host.go). Of the cluster
// it reaches the API server's address alone, by a link that the story cuts. tests/e2e has the
// same machine (Workstation), sandbox and requests (Ask, Watcher).
package local
