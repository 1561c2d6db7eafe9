// Package parse reads the HTTP exchanges of a connection from a copy of its bytes. The bytes are passed on unchanged
// whatever it makes of them, so a fault of this package, or a message that it cannot read, costs captured exchanges and no
// request.
//
// A Conn is offered the bytes of both directions in the order in which they arrive, each before it is passed on: then the
// request of a response is always known, and so is the order of a response and later bytes of the client. Only requests are counted at once, if that is possible
// without reading them. The rest is read after the bytes are passed on, or before bytes of the other direction are.
//
// It reads HTTP/1.0, HTTP/1.1 with pipelining, upgrades to WebSocket and to HTTP/2, and HTTP/2 with prior knowledge, which
// includes gRPC. It keeps no bytes but those of a head that has not arrived whole.
//
// Frames of HTTP/2 are read here, with hpack of golang.org/x/net for their headers: its Framer pulls whole frames from a
// reader, which a copy in pieces is not.
package parse
