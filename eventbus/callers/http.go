package callers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
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
