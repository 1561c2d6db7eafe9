package callers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"
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
