package callers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"switchyard.dev/eventbus/wake"
)

// ProbeServer returns a server for probes and metrics: each request is small, and has a
// deadline.
func ProbeServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       5 * time.Second,
		WriteTimeout:      15 * time.Second,
		IdleTimeout:       60 * time.Second,
		MaxHeaderBytes:    16 << 10,
	}
}

// ServeProbes serves a listener with a ProbeServer until ctx ends, which interrupts probes in
// progress: they are repeated.
func ServeProbes(ctx context.Context, l net.Listener, handler http.Handler) error {
	server := ProbeServer(handler)
	stopped := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stopped()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve on %s: %w", l.Addr(), err)
	}
	return nil
}

// Serve serves a listener until ctx ends. It accepts no connections then, and requests that are under way
// have stopWithin to end.
func Serve(ctx context.Context, server *http.Server, l net.Listener, stopWithin time.Duration) error {
	stopped := make(chan struct{})
	context.AfterFunc(ctx, func() {
		defer close(stopped)
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
		defer cancel()
		if server.Shutdown(within) != nil {
			_ = server.Close() // their time is over
		}
	})
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve on %s: %w", l.Addr(), err)
	}
	<-stopped
	return nil
}

// BegunTLS returns a configuration for a Listener with AwaitHandshakes: a client has begun a handshake
// with a ClientHello that offers one of the protocols or, if there are none, with any.
func BegunTLS(config *tls.Config, protocols ...string) *tls.Config {
	former := config.GetConfigForClient
	config = config.Clone()
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if len(protocols) == 0 || slices.ContainsFunc(hello.SupportedProtos, func(p string) bool { return slices.Contains(protocols, p) }) {
			Begun(hello.Conn)
		}
		if former != nil {
			return former(hello)
		}
		return nil, nil // the configuration as it is
	}
	return config
}

// Identify is Listener.IdentifyAs for a connection of any listener; of one that is no Listener nothing is known.
func Identify(l net.Listener, conn net.Conn, user string) {
	if known, is := l.(*Listener); is {
		known.IdentifyAs(conn.RemoteAddr().String(), user)
	}
}

// acceptPause is the delay after a connection that could not be accepted.
const acceptPause = 50 * time.Millisecond

// Accept calls serve with each connection of a listener, in a goroutine of running, until the listener is closed:
// by the end of ctx, or by another. It continues after other errors, usually of too many open files, and logs them.
func Accept(ctx context.Context, l net.Listener, logger *slog.Logger, running *sync.WaitGroup, serve func(net.Conn)) {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		conn, err := l.Accept()
		if err != nil && (ctx.Err() != nil || errors.Is(err, net.ErrClosed)) {
			return
		}
		if err != nil {
			logger.Warn("a connection cannot be accepted", "listener", l.Addr().String(), "error", err)
			wake.Sleep(ctx, acceptPause)
			continue
		}
		running.Go(func() { serve(conn) })
	}
}
