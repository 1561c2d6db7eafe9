// Package proxy passes the connections of a fork's callers on to its application, and lets package parse read a copy of
// their bytes.
//
// The bytes are never changed, delayed or held: no protocol, header, timeout or limit of this package is between the two
// ends, and each end of a connection is passed on as it came, closed, half closed or reset. What differs is the address
// that the application sees (the pod's own), and a connection to an application that does not listen is accepted first
// and then reset.
//
// An idle connection has no buffer. One that is not HTTP is copied by the kernel.
package proxy
