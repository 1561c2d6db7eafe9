// Package proxy is the tunnel proxy: workstations connect to it, and their tunnels end there in
// the cluster.
//
//	7777  sessions of Switchyard's protocol over TLS (carrier)   workstation.go, sessions.go
//	2222  stock SSH clients                                      ../sshd
//	1080  SOCKS5                                                 ../socks
//	7780  the controller manager, over TLS                       control.go
//	9090  metrics and health                                     proxy.go
//
// Both directions are forwarded and recorded by other packages, for all three protocols: into the
// cluster by outbound, to workstations by inbound.
//
// A session has an owner, a name and an epoch. A connection of the session with a greater epoch
// ends the one before at once, and one with an epoch that is not greater is refused. Each
// declaration of a workstation replaces the one before. Its outcome is computed again when an
// external workload changes, and periodically, since rights may change.
//
// When the proxy drains it reports that at the control port, accepts no further sessions, and
// asks the workstations to connect to another proxy at once. Their sessions continue here for
// open connections, and for requests of clients with a stale address, until nothing uses them,
// and no longer than Config.Moment.
package proxy
