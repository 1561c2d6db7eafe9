package kubeapi

import (
	"io"
	"net"
)

// single is a listener with the connection that it contains. Its end is io.EOF.
type single chan net.Conn

func newSingle(conn net.Conn) single {
	s := make(single, 1)
	s <- conn
	close(s)
	return s
}

// Accept implements net.Listener.
func (s single) Accept() (net.Conn, error) {
	if conn, is := <-s; is {
		return conn, nil
	}
	return nil, io.EOF
}

// Close implements net.Listener.
func (s single) Close() error { return nil }

// Addr implements net.Listener.
func (s single) Addr() net.Addr { return &net.TCPAddr{} }
