package target

import (
	"bytes"
	"context"
	"net"
	"sync"

	"switchyard.dev/tunnels/relay"
)

// Listener hides the targets of what clients send over its connections.
type Listener struct{ net.Listener }

// Accept implements net.Listener.
func (l Listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &accepted{Conn: c, requests: requests{replace: hidden}, buffer: make([]byte, 8<<10)}, nil
}

// accepted is a connection from a client.
type accepted struct {
	net.Conn

	mu       sync.Mutex
	requests requests
	buffer   []byte
	ready    []byte
}

// Read implements net.Conn.
func (c *accepted) Read(p []byte) (int, error) {
	for {
		if n := c.taken(p); n > 0 || len(p) == 0 {
			return n, nil
		}
		n, err := c.Conn.Read(c.buffer)
		c.mu.Lock()
		c.ready = c.requests.feed(c.buffer[:n])
		c.mu.Unlock()
		if err != nil && n == 0 {
			return 0, err
		}
	}
}

func (c *accepted) taken(p []byte) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := copy(p, c.ready)
	c.ready = c.ready[n:]
	return n
}

// CloseWrite closes the sending half.
func (c *accepted) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Cut aborts the connection.
func (c *accepted) Cut() { relay.Cut(c.Conn) }

type key struct{}

// Context is a ConnContext of http.Server, through which Switched finds the connection.
func Context(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, key{}, c)
}

// Switched reports that the client's connection speaks another protocol than HTTP from now on.
func Switched(ctx context.Context) {
	if c, ok := ctx.Value(key{}).(*accepted); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.requests.state = raw
		c.ready = append(c.ready, c.requests.release()...)
	}
}

// Wrap returns a connection to a destination, which gets the targets that Set has set.
func Wrap(c net.Conn) net.Conn {
	return &dialed{Conn: c, requests: requests{
		replace: func(_, path string) string { return shown(path) },
		http:    func(b []byte) bool { return bytes.Contains(b, []byte(mark)) },
	}}
}

// dialed is a connection to a destination.
type dialed struct {
	net.Conn
	requests requests
}

// Write implements net.Conn.
func (c *dialed) Write(p []byte) (int, error) {
	if out := c.requests.feed(p); len(out) > 0 {
		if _, err := c.Conn.Write(out); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// CloseWrite closes the sending half.
func (c *dialed) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
