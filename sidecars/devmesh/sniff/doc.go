// Package sniff finds out what connections speak that have not shown it to Envoy in time.
//
// Envoy looks for 20 ms at what a client says first (package devmesh). A connection that is
// silent for longer it passes to a Sniffer, over a Unix socket and with a PROXY header. Whoever
// speaks first decides: when that is the client, and it speaks HTTP, the connection goes back
// to Envoy to be routed, however late; anything else is passed on to the application as it is.
package sniff
