package kubeapi

import (
	"io"
	"net"
	"sync"
)

// single is a listener with one connection. Accept fails once that is closed.
type single struct {
	conn  net.Conn
	given bool
	done  chan struct{}
}

func newSingle(conn net.Conn) *single {
	s := &single{done: make(chan struct{})}
	s.conn = &closing{Conn: conn, end: sync.OnceFunc(func() { close(s.done) })}
	return s
}

// Accept implements net.Listener.
func (s *single) Accept() (net.Conn, error) {
	if !s.given {
		s.given = true
		return s.conn, nil
	}
	<-s.done
	return nil, io.EOF
}

// Close implements net.Listener.
func (s *single) Close() error { return nil }

// Addr implements net.Listener.
func (s *single) Addr() net.Addr { return s.conn.LocalAddr() }

// closing is a connection that reports its end.
type closing struct {
	net.Conn
	end func()
}

// Close implements net.Conn.
func (c *closing) Close() error {
	defer c.end()
	return c.Conn.Close()
}
