// Package proxy is the tunnel proxy: what workstations connect to, and where their tunnels end
// in the cluster.
//
//	7777  sessions of our own protocol over TLS (carrier)   workstation.go, sessions.go
//	2222  stock SSH clients                                 ../sshd
//	1080  SOCKS5                                            ../socks
//	7780  the controller manager, over TLS                  control.go
//	9090  metrics and health                                proxy.go
//
// Both directions are led, and recorded, by packages below, whichever way a workstation came:
// into the cluster by outbound, to workstations by inbound.
//
// A session has an owner, a name and an epoch. A connection of the session with a greater
// epoch ends the one before at once, and one with an epoch that is not greater is refused.
// What a workstation declares takes the place of what it declared before; what came of it is
// looked at again when an external workload changes, and now and then, since rights may.
//
// When the proxy is to end it says so at the control port, takes no further sessions, and has
// the workstations go elsewhere at once. Their sessions here go on for what is in them and for
// requests of who has not heard of the other proxy yet: until nothing needs them, and no longer
// than a moment.
package proxy
