// Package holders decides which tunnel proxy holds the tunnel of which external workload,
// from what all proxies tell.
//
//	Judge  who holds what, and what the others are to be told   holders.go
//	Life   whether a proxy is there, and until when that counts  life.go
//
// Of two sessions that hold the same tunnel the later one counts, of one session the
// greater epoch. A proxy that is gone keeps what it held, as not connected, until the
// session comes to another: nobody else takes its tunnels for that.
package holders
