// Package samples has the images in which the samples of resource plugins run
// (workflows/samples), and the servers that they work on. Nobody here wrote any of it.
//
//	Pack    packs them, and makes ready what goes into them     images.go
//	        a small Debian with psql, redis-cli and Python,      debian.go
//	        and with the servers of PostgreSQL and Redis
//	System  the same Debian as a folder                          system.go
//	pinned  go.mod and go.sum of OpenTofu and the nats command   pinned/
//
// The first time Debian takes two minutes to fetch and unpack, and OpenTofu four to compile;
// what is not asked for is not made ready.
package samples
