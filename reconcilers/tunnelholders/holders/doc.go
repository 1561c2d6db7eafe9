// Package holders decides which tunnel proxy holds the tunnel of which external workload, from the
// reports of all proxies.
//
//	Judge  the holders, and the notifications for others         holders.go
//	Life   whether a proxy is alive, and until when that counts  life.go
//
// Of the sessions of one user with the same tunnel the latest holds it, of one session the connection
// with the greatest epoch. Another user's session holds it once it has taken the tunnel explicitly, or
// the tunnel is free: its workstation, or the proxy at which it ended, is lost for five seconds. Until
// then a lost proxy keeps its tunnels, as not connected.
package holders
