// Package samples provides the images in which the samples of resource plugins run
// (workflows/samples), and the servers that they use. All of it is third-party software.
//
//	Pack    packs them, and prepares their content              images.go
//	        a small Debian with psql, redis-cli and Python,      debian.go
//	        and with the servers of PostgreSQL and Redis
//	System  the same Debian as a directory                       system.go
//	pinned  go.mod and go.sum of OpenTofu and the nats command   pinned/
//
// The first time, Debian takes two minutes to download and unpack, and OpenTofu four to compile;
// only requested images are prepared.
package samples
