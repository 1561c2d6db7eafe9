package routing

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"switchyard.dev/eventbus/callers"
)

const (
	// sniffBytes is how many bytes of a client decide about the protocol of a tunnel, and sniffWithin how long those
	// after the first one are waited for.
	sniffBytes, sniffWithin = 4 << 10, 5 * time.Second
)

// past is a deadline that has passed.
var past = time.Unix(1, 0)

// end is an end of a tunnel, of which the first bytes were read.
type end struct {
	net.Conn
	from io.Reader
}

// Read implements net.Conn.
func (e *end) Read(b []byte) (int, error) { return e.from.Read(b) }

// closeWrite ends one direction.
func (e *end) closeWrite() error {
	if half, is := inner(e.Conn).(interface{ CloseWrite() error }); is {
		return half.CloseWrite()
	}
	return e.Close()
}

// cut ends the connection as an error.
func (e *end) cut() {
	if tcp, is := inner(e.Conn).(*net.TCPConn); is {
		_ = tcp.SetLinger(0) // else it would end like a closed one
	}
	_ = e.Close() // it is aborted
}

// inner returns a connection as the system has it.
func inner(c net.Conn) net.Conn {
	if counted, is := c.(*callers.Conn); is {
		return counted.Conn
	}
	return c
}

// pipe copies bytes both ways, until both sides have ended. An error of one side cuts both.
func pipe(a, b *end) {
	carry := func(to, from *end) {
		copied := func() error { _, err := io.Copy(to, from); return err }
		if from.from == io.Reader(from.Conn) { // nothing was read: the kernel can copy
			copied = func() error { _, err := io.Copy(to.Conn, from.Conn); return err }
		}
		if copied() != nil || to.closeWrite() != nil {
			a.cut()
			b.cut()
		}
	}
	var both sync.WaitGroup
	both.Go(func() { carry(a, b) })
	both.Go(func() { carry(b, a) })
	both.Wait()
	_ = errors.Join(a.Close(), b.Close()) // both have ended
}

// tunnel is the client's end of a tunnel that contains HTTP.
type tunnel struct {
	end
	to        string
	by        *http.Transport
	execution *Execution
	// given has the connection with which the tunnel began, until by uses it.
	given chan net.Conn
	// ended is called at the end of a redirected tunnel: its client does not know the proxy, and uses the connection after
	// the job too. Nil: it is another tunnel.
	ended func()
}

// Close implements net.Conn.
func (t *tunnel) Close() error {
	if t.ended != nil {
		t.ended()
	}
	t.by.CloseIdleConnections()
	select {
	case c := <-t.given:
		_ = c.Close() // it was not used
	default:
	}
	return t.end.Close()
}

// tunnels is the listener of the server for the content of tunnels.
type tunnels struct {
	address net.Addr
	next    chan net.Conn
	once    sync.Once
	closed  chan struct{}
}

func newTunnels(address net.Addr) *tunnels {
	return &tunnels{address: address, next: make(chan net.Conn), closed: make(chan struct{})}
}

// Accept implements net.Listener.
func (t *tunnels) Accept() (net.Conn, error) {
	select {
	case c := <-t.next:
		return c, nil
	case <-t.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (t *tunnels) Close() error {
	t.once.Do(func() { close(t.closed) })
	return nil
}

// Addr implements net.Listener.
func (t *tunnels) Addr() net.Addr { return t.address }

// serve has a connection served.
func (t *tunnels) serve(c net.Conn) {
	select {
	case t.next <- c:
	case <-t.closed:
		_ = c.Close() // the process ends
	}
}

type tunnelKey struct{}

func withTunnel(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, tunnelKey{}, c)
}

// inside serves a request in a tunnel.
func (p *Proxy) inside(out http.ResponseWriter, r *http.Request) {
	t, is := r.Context().Value(tunnelKey{}).(*tunnel)
	if is && t.ended != nil && p.now.Load() != t.execution {
		(&Execution{}).forward(out, r, t.to, t.by)
		return
	}
	if !is || p.now.Load() != t.execution {
		refuse(out, http.StatusServiceUnavailable, "the job of this connection has ended")
		return
	}
	t.execution.forward(out, r, t.to, t.by)
}

// connect serves CONNECT.
func (p *Proxy) connect(out http.ResponseWriter, r *http.Request, e *Execution) {
	there, err := p.dial(r.Context(), "tcp", r.Host)
	if err != nil {
		refuse(out, http.StatusBadGateway, fmt.Sprintf("%s cannot be reached: %v", r.Host, err))
		return
	}
	server := &end{there, bufio.NewReaderSize(there, 512)}
	conn, read, err := http.NewResponseController(out).Hijack()
	if err != nil {
		_ = server.Close() // it was not used
		refuse(out, http.StatusHTTPVersionNotSupported, "CONNECT needs HTTP/1.1")
		return
	}
	// The server does not close a connection that was hijacked.
	stop := context.AfterFunc(r.Context(), func() { _ = errors.Join(conn.Close(), server.Close()) })
	defer stop()
	_ = conn.SetDeadline(time.Time{}) // an error is that of the next read
	if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		_ = errors.Join(conn.Close(), server.Close())
		return
	}
	client := &end{conn, bufio.NewReaderSize(io.MultiReader(io.LimitReader(read, int64(read.Reader.Buffered())), conn), sniffBytes)}
	p.open(tunnel{end: *client, to: r.Host, execution: e}, server, first(client, server), stop)
}

// open carries the content of a tunnel, which is closed unless stop returns true before requests are served. It returns
// true if they are, until the tunnel is closed, and false if it has ended.
func (p *Proxy) open(t tunnel, server *end, what protocol, stop func() bool) bool {
	if what == other {
		t.execution.count(false)
		pipe(&t.end, server)
		return false
	}
	given := make(chan net.Conn, 1)
	given <- server
	t.given, t.by = given, transport(what == http2, func(ctx context.Context, network, address string) (net.Conn, error) {
		select {
		case c := <-given:
			return c, nil
		default:
			return p.dial(ctx, network, address)
		}
	})
	if !stop() {
		return false
	}
	p.tunnels.serve(&t)
	return true
}

// first returns the protocol of a tunnel, by the first bytes of the client; it is other if the server sends before,
// except for the settings with which servers of HTTP/2 begin. Bytes that it reads stay in the buffers of both.
func first(client, server *end) protocol {
	ended, from, to := make(chan struct{}), client.from.(*bufio.Reader), server.from.(*bufio.Reader)
	go func() {
		defer close(ended)
		for n := 1; ; n = to.Buffered() + 1 {
			_, err := to.Peek(n)
			some, _ := to.Peek(to.Buffered())
			if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
				return // the client has sent enough
			}
			if err != nil || !settings(some) {
				_ = client.SetReadDeadline(past) // no more bytes of the client are waited for
				return
			}
			if len(some) >= settingsBytes {
				return
			}
		}
	}()
	what := unknown
	for n := 1; what == unknown; n = from.Buffered() + 1 {
		_, err := from.Peek(n)
		some, _ := from.Peek(from.Buffered())
		what = sniff(some, err != nil || len(some) == sniffBytes)
		if n == 1 && what == unknown {
			_ = client.SetReadDeadline(time.Now().Add(sniffWithin))
		}
	}
	_ = server.SetReadDeadline(past)
	<-ended
	_ = errors.Join(server.SetReadDeadline(time.Time{}), client.SetReadDeadline(time.Time{})) // an error is that of the next read
	if some, _ := to.Peek(to.Buffered()); len(some) > 0 && !(what == http2 && settings(some)) {
		return other
	}
	return what
}
