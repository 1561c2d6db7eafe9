// Package holders decides which tunnel proxy holds the tunnel of which external workload,
// from what all proxies tell.
//
//	Judge  who holds what, and what the others are to be told   holders.go
//	Life   whether a proxy is there, and until when that counts  life.go
//
// Of the sessions of one user that hold the same tunnel the later one counts, of one session the
// greater epoch. Another user's session counts once it has taken the tunnel explicitly, or the
// tunnel is free: its workstation, or the proxy at which it ended, is lost for five seconds.
// Until then a lost proxy keeps its tunnels, as not connected.
package holders
