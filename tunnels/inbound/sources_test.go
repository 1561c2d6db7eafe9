package inbound

import (
	"net"
	"testing"
)

// accepts returns a connection that was accepted, from 127.0.0.1.
func accepts(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// A connection that was closed for another one goes after that one has gone too: later
// connections of its source still count.
func TestALateEndForgetsNoOthers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s, to := newSources(), Key{Namespace: "shop", Name: "cart"}
	s.each, s.after = 1, 0
	late := s.enter(to, "carrier", accepts(t, l))
	s.enter(to, "carrier", accepts(t, l))() // takes the first one's place, and goes
	gone := s.enter(to, "carrier", accepts(t, l))
	late()
	if len(s.of) != 1 {
		t.Error("the connection of the source is forgotten")
	}
	gone()
	if len(s.of) != 0 {
		t.Error("a source without connections is remembered")
	}
}
