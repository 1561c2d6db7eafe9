package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"

	"switchyard.dev/eventbus/caller"
	"switchyard.dev/eventbus/connect"
	"switchyard.dev/eventbus/embedded"
)

// Config says what the program runs with.
type Config struct {
	Settings Settings
	// Reviews is the API that vouches for the clients' tokens.
	Reviews authenticationv1.TokenReviewInterface
	Logger  *slog.Logger
}

// Server is the running program.
type Server struct {
	logger          *slog.Logger
	bus             *embedded.Server
	health, metrics net.Listener
}

const (
	// watchPause is between two looks at whether the store is still there.
	watchPause = time.Second
	// maxConnections bounds the open connections of each of the two listeners
	// for HTTP; more wait to be accepted.
	maxConnections = 256
)

// Start opens the log and the listeners. Run serves them, Close ends all.
func Start(c Config) (*Server, error) {
	verifier, err := caller.New(caller.Config{Reviews: c.Reviews, Audience: c.Settings.Audience})
	if err != nil {
		return nil, err
	}
	s := &Server{logger: c.Logger}
	if s.health, err = listen(c.Settings.Health); err != nil {
		return nil, fmt.Errorf("listen for health checks: %w", err)
	}
	if s.metrics, err = listen(c.Settings.Metrics); err != nil {
		s.Close()
		return nil, fmt.Errorf("listen for metrics: %w", err)
	}
	s.bus, err = embedded.Start(embedded.Config{
		StoreDir: c.Settings.StoreDir, Listen: c.Settings.Listen, MaxStore: c.Settings.MaxStore, Logger: c.Logger,
		Authenticate: func(ctx context.Context, token string) (connect.Role, error) {
			who, err := verifier.Verify(ctx, token)
			if err != nil {
				return 0, err
			}
			return c.Settings.RoleOf(who)
		},
	})
	if err != nil {
		s.Close()
		return nil, err
	}
	c.Logger.Info("the event bus is open", "listen", s.bus.Addr().String(), "store", c.Settings.StoreDir)
	return s, nil
}

// Addresses are where the program listens.
func (s *Server) Addresses() (bus, health, metrics net.Addr) {
	return s.bus.Addr(), s.health.Addr(), s.metrics.Addr()
}

// Run serves until ctx ends, and returns nil then, or until something fails.
func (s *Server) Run(ctx context.Context) error {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collector{s.bus})
	health := http.NewServeMux()
	health.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	health.HandleFunc("GET /readyz", s.ready)
	metrics := http.NewServeMux()
	metrics.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second}))
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return serve(ctx, s.health, health) })
	group.Go(func() error { return serve(ctx, s.metrics, metrics) })
	group.Go(func() error { return s.watch(ctx) })
	return group.Wait()
}

// Close ends all that Start began. Facts that were acknowledged are on disk.
func (s *Server) Close() {
	for _, l := range []net.Listener{s.health, s.metrics} {
		if l != nil {
			_ = l.Close() // closed already when Run has served it
		}
	}
	if s.bus != nil {
		s.bus.Close()
	}
}

func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	if err := s.bus.Ready(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// watch fails when the store is taken away.
func (s *Server) watch(ctx context.Context) error {
	ticker := time.NewTicker(watchPause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if err := s.bus.Ready(); errors.Is(err, embedded.ErrStoreGone) {
				return err
			}
		}
	}
}

func listen(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	return netutil.LimitListener(l, maxConnections), nil
}

// serve serves HTTP on the listener until ctx ends.
func serve(ctx context.Context, l net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       5 * time.Second,
		WriteTimeout:      15 * time.Second,
		IdleTimeout:       60 * time.Second,
		MaxHeaderBytes:    16 << 10,
	}
	stopped := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stopped()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
