// Package cable is a way to a server that a test can cut.
package cable

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Cable carries connections to an address.
type Cable struct {
	// Address is where it begins.
	Address string

	to      string
	mu      sync.Mutex
	severed bool
	conns   map[net.Conn]struct{}
}

// Lay lays one from a free port of a host to an address. It ends with the test.
func Lay(t testing.TB, host, to string) *Cable {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	c := &Cable{Address: listener.Addr().String(), to: to, conns: map[net.Conn]struct{}{}}
	go c.serve(listener)
	t.Cleanup(func() {
		_ = listener.Close()
		c.Sever(true)
	})
	return c
}

func (c *Cable) serve(listener net.Listener) {
	for {
		from, err := listener.Accept()
		if err != nil {
			return // the test is over
		}
		to, err := net.Dial("tcp", c.to)
		if err != nil {
			_ = from.Close() // the server is down, and so looks the cable
			continue
		}
		if c.keep(from, to) {
			go c.carry(from, to)
			go c.carry(to, from)
		}
	}
}

// keep remembers two ends, or closes them when the cable is severed.
func (c *Cable) keep(ends ...net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, end := range ends {
		if c.severed {
			_ = end.Close() // that is what a severed cable does
			continue
		}
		c.conns[end] = struct{}{}
	}
	return !c.severed
}

func (c *Cable) carry(from, to net.Conn) {
	_, _ = io.Copy(to, from) // ends when either end does
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, end := range []net.Conn{from, to} {
		_ = end.Close() // may be closed by the other direction
		delete(c.conns, end)
	}
}

// Sever cuts the cable, with all that is on its way, or makes it whole again.
func (c *Cable) Sever(severed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.severed = severed
	if severed {
		c.cut()
	}
}

// Cut ends all connections; new ones go through.
func (c *Cable) Cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut()
}

// cut ends all connections. The lock is held.
func (c *Cable) cut() {
	for conn := range c.conns {
		_ = conn.Close()
	}
}
