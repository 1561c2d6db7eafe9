// Package loopback serves listeners on the workstation for connections into the cluster, without
// any privilege: a SOCKS5 proxy, an HTTP proxy, and ports that each represent one address of the
// cluster.
//
// They listen on loopback addresses only. Every account of the machine can use them; web pages
// cannot. A browser speaks SOCKS5 only when it is configured to. The HTTP proxy answers nothing
// but requests to a proxy. A port for HTTP answers only requests that have the port or its
// destination as their Host and an Origin of this machine; a request without an Origin that the
// browser marks as sent by a page of another site must come from a page of this machine too.
package loopback

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/carrier"
	"switchyard.dev/tunnels/relay"
)

const (
	// maxConns bounds the connections of one listener; further ones wait.
	maxConns = 1024
	// requestWithin is how long a client may take to send its request.
	requestWithin = 10 * time.Second
	// opening is how long the cluster may take to connect.
	opening = 30 * time.Second
)

// Opener opens a connection to an address in the cluster.
type Opener func(ctx context.Context, host string, port uint16) (net.Conn, error)

// Listen listens on a loopback address, host:port; localhost is 127.0.0.1 and, on machines that have
// it, ::1, and port 0 any. The error has the remedy.
func Listen(address string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("%q is no address to listen on, such as localhost:8080", address)
	}
	if host == "localhost" {
		return both(port)
	}
	if ip, err := netip.ParseAddr(host); err != nil || !ip.IsLoopback() {
		return nil, fmt.Errorf("%s is not an address of this machine alone: listen on localhost, 127.0.0.1 or ::1", address)
	}
	return one(net.JoinHostPort(host, port))
}

// one listens on one address.
func one(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("another program listens on %s: stop it, or choose another port", address)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return l, nil
}

// splitPort splits an address of the cluster.
func splitPort(address string) (host string, port uint16, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, fmt.Errorf("%q is not host:port", address)
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 || host == "" {
		return "", 0, fmt.Errorf("%q is not host:port with a port from 1 to 65535", address)
	}
	return host, uint16(n), nil
}

// Dial opens a connection to an address in the cluster, host:port, as a net.Dialer does.
func (o Opener) Dial(ctx context.Context, _, address string) (net.Conn, error) {
	host, port, err := splitPort(address)
	if err != nil {
		return nil, err
	}
	return o(ctx, host, port)
}

// serve handles each connection of a listener, until ctx ends; then all are cut.
func serve(ctx context.Context, l net.Listener, handle func(context.Context, net.Conn)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l = limited(ctx, l)
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		c, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !errors.Is(err, net.ErrClosed):
			wait()
			continue
		case err != nil:
			return err
		}
		go func() {
			defer c.Close()
			stop := context.AfterFunc(ctx, func() { _ = c.Close() })
			defer stop()
			handle(ctx, c)
		}()
	}
}

// wait pauses after a listener failed: without free file descriptors, until others are closed.
func wait() { time.Sleep(10 * time.Millisecond) }

// through opens an address and joins a client with it; answered sends the client the outcome
// first.
func (o Opener) through(ctx context.Context, c net.Conn, host string, port uint16, answered func(error) error) {
	ctx, cancel := context.WithTimeout(ctx, opening)
	there, err := o(ctx, host, port)
	cancel()
	if told := answered(err); err != nil || told != nil {
		if err == nil {
			relay.Cut(there)
		}
		return
	}
	_ = c.SetDeadline(time.Time{})
	relay.Pipe(relay.Of(c), relay.Of(there))
}

// reasonOf returns why an address was not opened, for programs.
func reasonOf(err error) tunnelv1.Reason {
	var refused *carrier.RefusedError
	switch {
	case errors.As(err, &refused):
		return refused.Refused.GetReason()
	case errors.Is(err, context.DeadlineExceeded):
		return tunnelv1.Reason_REASON_UNREACHABLE
	}
	return tunnelv1.Reason_REASON_UNAVAILABLE
}

// statusOf returns the HTTP status for a reason.
func statusOf(r tunnelv1.Reason) int {
	switch r {
	case tunnelv1.Reason_REASON_DESTINATION, tunnelv1.Reason_REASON_FORBIDDEN, tunnelv1.Reason_REASON_UNAUTHENTICATED:
		return http.StatusForbidden
	case tunnelv1.Reason_REASON_NOT_FOUND, tunnelv1.Reason_REASON_UNREACHABLE:
		return http.StatusBadGateway
	case tunnelv1.Reason_REASON_INVALID:
		return http.StatusBadRequest
	}
	return http.StatusServiceUnavailable
}

// local reports whether the host of a URL or of a header is this machine.
func local(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.Trim(host, "[]"), ".")
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && ip.IsLoopback()
}

// Original returns the original destination of a redirected connection.
type Original func(net.Conn) (netip.AddrPort, error)

// ServeRedirected accepts connections that the rules of this machine redirect to a listener, and
// forwards each to its original destination, until ctx ends. A connection that was not
// redirected, or with a destination that cannot be reached, is cut.
func ServeRedirected(ctx context.Context, l net.Listener, original Original, open Opener) error {
	return serve(ctx, l, func(ctx context.Context, c net.Conn) {
		to, err := original(c)
		if err != nil {
			relay.Cut(relay.Of(c))
			return
		}
		open.through(ctx, c, to.Addr().String(), to.Port(), func(err error) error {
			if err != nil {
				relay.Cut(relay.Of(c))
			}
			return err
		})
	})
}

// Refused returns an Opener that passes each address that the cluster refuses to note, and why: for
// clients that show no text, as those of SOCKS5 and CONNECT. nil: nothing is noted. An address that
// does not answer, and a tunnel that is not connected, are not noted.
func (o Opener) Refused(note func(host string, port uint16, err error)) Opener {
	if note == nil {
		return o
	}
	return func(ctx context.Context, host string, port uint16) (net.Conn, error) {
		c, err := o(ctx, host, port)
		if err != nil && isRefusal(reasonOf(err)) {
			note(host, port, err)
		}
		return c, err
	}
}

// isRefusal reports whether the same address is refused again.
func isRefusal(r tunnelv1.Reason) bool {
	switch r {
	case tunnelv1.Reason_REASON_NOT_FOUND, tunnelv1.Reason_REASON_DESTINATION, tunnelv1.Reason_REASON_FORBIDDEN, tunnelv1.Reason_REASON_INVALID:
		return true
	}
	return false
}

// limited bounds the connections of a listener. Its connections support half-close, as TCP does;
// those of netutil.LimitListener do not.
func limited(ctx context.Context, l net.Listener) net.Listener {
	return &bounded{Listener: l, ctx: ctx, room: make(chan struct{}, maxConns)}
}

type bounded struct {
	net.Listener
	ctx  context.Context
	room chan struct{}
}

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	select {
	case b.room <- struct{}{}:
	case <-b.ctx.Done():
		return nil, net.ErrClosed
	}
	c, err := b.Listener.Accept()
	if err != nil {
		<-b.room
		return nil, err
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		<-b.room
		return c, nil
	}
	return &counted{TCPConn: tcp, leave: sync.OnceFunc(func() { <-b.room })}, nil
}

type counted struct {
	*net.TCPConn
	leave func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	defer c.leave()
	return c.TCPConn.Close()
}

// Cut aborts the connection.
func (c *counted) Cut() {
	defer c.leave()
	relay.Cut(c.TCPConn)
}
