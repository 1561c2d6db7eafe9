// Package proxy passes the connections of a fork's callers on to its application, and lets package parse read a copy of
// their bytes.
//
// The bytes are never changed, delayed or held: no protocol, header, timeout or limit of this package is between the two
// ends, and each end of a connection is passed on as it came, closed, half closed or reset. What differs is the address
// that the application sees (the pod's own), and a connection to an application that does not listen is accepted first
// and then reset.
//
// Requests are counted before their bytes are passed on, so that a process that is killed has counted what the application has.
// Nothing else is done until then: package parse reads the bytes of both ends after they are passed on, in the same goroutine,
// and those of one end at the latest before it is offered bytes of the other that follow them.
//
// An idle connection has no buffer. One that is not HTTP is copied in the same way.
package proxy
