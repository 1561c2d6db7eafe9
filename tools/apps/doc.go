// Package apps provides third-party applications and protocol suites for tests: compiled from
// pinned Go modules, or extracted from Debian's packages, unmodified.
//
//	Find    returns them, and prepares them if necessary                   find.go
//	pinned  go.mod and go.sum of those in Go: podinfo, go-httpbin, h2spec,
//	        the server and client of gRPC's interop tests                  pinned/
//	clients go.mod and go.sum of grpcurl, for tests of tunnels (Clients)    clients/
//	        nginx, nghttpd and redis from Debian, not installed            debian.go
//
// Compiling takes about a minute and a half on two cores, once; Debian's packages are 2 MB.
package apps
