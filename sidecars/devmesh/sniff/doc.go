// Package sniff detects the protocol of connections that did not show it to Envoy in time.
//
// Envoy waits 20 ms for the first bytes of a client (package devmesh). A connection that is
// silent for longer is passed to a Sniffer, over a Unix socket and with a PROXY header. The
// first side to speak decides: when that is the client, and it speaks HTTP, the connection goes
// back to Envoy to be routed, however late; anything else is passed on to the application
// unchanged.
package sniff
