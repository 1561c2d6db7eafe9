package background

import (
	"net"
	"testing"
)

// Listen serves each connection to a port of 127.0.0.1 until the test ends, and returns the address. A connection is
// closed when serve returns.
func Listen(t testing.TB, serve func(net.Conn)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go Accept(l, serve)
	return l.Addr().String()
}

// Accept serves each connection of a listener until that is closed, likewise.
func Accept(l net.Listener, serve func(net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			serve(c)
		}()
	}
}
