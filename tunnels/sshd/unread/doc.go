// Package unread limits the memory of unread bytes from SSH clients.
//
// The SSH library gives each channel a fixed window of 2 MiB and keeps the received packets until the
// channel is read. It reports neither how many bytes wait nor in which channel, so the bytes are
// counted at the edges: bytes received on a connection less bytes read from its channels. The
// difference counts from the last moment at which all channels of the connection were empty. It is
// measured in bytes of the wire, since a packet of one byte costs as much memory as its header.
//
// All connections of a process share one Budget. When it is exhausted, the user with the most unread
// bytes loses the channel that has been stalled longest.
package unread
