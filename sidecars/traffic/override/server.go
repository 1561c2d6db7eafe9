package override

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"switchyard.dev/sidecars/traffic/override/policy"
)

const (
	// dialWithin bounds the time to connect, and idleFor that of a connection without a request: applications keep
	// connections for longer, as a rule.
	dialWithin, idleFor = 3 * time.Second, 2 * time.Second
	// maxMethod bounds the method of a request.
	maxMethod = 20
)

// halves is a connection of which one direction can end first.
type halves interface {
	net.Conn
	CloseWrite() error
}

// Settings are the override of a port. The zero value: there is none.
type Settings struct {
	policy.Policy
	// Address is host:port of the override; empty: there is none.
	Address string
	// Keys and Stream are as in Override.
	Keys   []string
	Stream time.Duration
}

// Server serves connections of callers. Its requests to one port of the application have the override that the port has
// when they begin.
type Server struct {
	settings func(application int32, key string) Settings
	logger   *slog.Logger
	http     *http.Server
	accepted chan net.Conn
	closed   chan struct{}
	close    func()
	all      sync.WaitGroup
	held     atomic.Int64 // bytes of bodies
	// one and two are the clients of HTTP/1.1 and of HTTP/2, of the override and of the application.
	first, then struct{ one, two *http.Transport }
}

// New returns a Server, which runs until Stop. settings returns those of requests with a routing key to a port of the application.
func New(settings func(application int32, key string) Settings, logger *slog.Logger) *Server {
	s := &Server{settings: settings, logger: logger, accepted: make(chan net.Conn), closed: make(chan struct{})}
	s.close = sync.OnceFunc(func() { close(s.closed) })
	s.first.one, s.first.two = transport(AnswerWithin)
	s.then.one, s.then.two = transport(0)
	s.http = &http.Server{ //nolint:gosec // the application has the limits
		Handler: s, Protocols: new(http.Protocols), ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug), MaxHeaderBytes: 1 << 20, DisableGeneralOptionsHandler: true,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connection{}, c) },
	}
	s.http.Protocols.SetHTTP1(true)
	s.http.Protocols.SetUnencryptedHTTP2(true)
	s.all.Go(func() { _ = s.http.Serve(s) }) // until Stop
	return s
}

// transport returns a client of HTTP/1.1 and one of HTTP/2.
func transport(within time.Duration) (one, two *http.Transport) {
	of := func() *http.Transport {
		return &http.Transport{
			DisableCompression: true, IdleConnTimeout: idleFor, ResponseHeaderTimeout: within, MaxIdleConnsPerHost: 64,
			MaxResponseHeaderBytes: 1 << 20, DialContext: (&net.Dialer{Timeout: dialWithin}).DialContext, Protocols: new(http.Protocols),
		}
	}
	one, two = of(), of()
	one.Protocols.SetHTTP1(true)
	two.Protocols.SetUnencryptedHTTP2(true)
	return one, two
}

// Stop ends all connections.
func (s *Server) Stop() {
	_ = s.http.Close() // which closes s too
	s.all.Wait()
}

// Close implements net.Listener.
func (s *Server) Close() error {
	s.close()
	return nil
}

// connection is the key of the caller's connection in contexts.
type connection struct{}

// caller is the connection of a caller, of which the first bytes are read again.
type caller struct {
	net.Conn
	again       []byte
	host        string
	application int32
}

// Read implements net.Conn.
func (c *caller) Read(b []byte) (int, error) {
	if len(c.again) > 0 {
		n := copy(b, c.again)
		c.again = c.again[n:]
		return n, nil
	}
	return c.Conn.Read(b)
}

// Dial returns a connection to a port of the application at an address of this pod.
func (s *Server) Dial(host string, application int32) (*net.UnixConn, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	var ends [2]net.Conn
	for i, fd := range pair {
		f := os.NewFile(uintptr(fd), "")
		c, wrong := net.FileConn(f)
		ends[i], err = c, errors.Join(err, wrong, f.Close())
	}
	if err != nil {
		return nil, err
	}
	s.all.Go(func() { s.serve(&caller{Conn: ends[1], host: host, application: application}) })
	return ends[0].(*net.UnixConn), nil
}

// serve has a connection served as HTTP, or passes it on.
func (s *Server) serve(c *caller) {
	app, err := s.sniff(c)
	switch {
	case err != nil:
		_ = c.Close()
	case app != nil:
		s.pass(c, app)
	default:
		select {
		case s.accepted <- c:
		case <-s.closed:
			_ = c.Close()
		}
	}
}

// sniff reads the first bytes of the caller. It returns a connection to the application if they are not HTTP.
func (s *Server) sniff(c *caller) (app halves, err error) {
	var first [2 * maxMethod]byte
	for have := 0; ; {
		n, err := c.Conn.Read(first[have:])
		if err != nil {
			return nil, err
		}
		have += n
		is, known := isHTTP(first[:have])
		if !known {
			continue
		}
		c.again = first[:have]
		if is {
			return nil, nil
		}
		out, err := net.DialTimeout("tcp", s.app(c), dialWithin)
		if err != nil {
			return nil, err
		}
		return out.(*net.TCPConn), nil
	}
}

// isHTTP reports whether a connection that begins so is HTTP/1 or HTTP/2; a tunnel (CONNECT) counts as another protocol.
func isHTTP(b []byte) (is, known bool) {
	i := 0
	for i < len(b) && b[i] >= 'A' && b[i] <= 'Z' {
		i++
	}
	switch {
	case i == len(b):
		return false, i > maxMethod
	case i == 0 || i > maxMethod || b[i] != ' ':
		return false, true
	case i+1 == len(b):
		return false, false
	}
	return string(b[:i]) != http.MethodConnect && (b[i+1] == '/' || b[i+1] == '*' || b[i+1] == 'h'), true
}

// app is the address of the application.
func (s *Server) app(c *caller) string {
	return net.JoinHostPort(c.host, strconv.Itoa(int(c.application)))
}

// pass copies both directions until their ends.
func (s *Server) pass(c *caller, app halves) {
	done := make(chan struct{})
	s.all.Go(func() {
		select {
		case <-done:
		case <-s.closed:
		}
		_, _ = c.Close(), app.Close() // both directions have ended, or end now
	})
	copied := func(to halves, from io.Reader) {
		if _, err := io.Copy(to, from); err == nil {
			_ = to.CloseWrite() // it may have ended
			return
		}
		_, _ = c.Close(), app.Close() // the other direction ends too
	}
	var back sync.WaitGroup
	back.Go(func() { copied(c.Conn.(*net.UnixConn), app) })
	copied(app, c)
	back.Wait()
	close(done)
}

// Accept implements net.Listener.
func (s *Server) Accept() (net.Conn, error) {
	select {
	case c := <-s.accepted:
		return c, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

// Addr implements net.Listener.
func (*Server) Addr() net.Addr { return &net.UnixAddr{Net: "unix"} }
