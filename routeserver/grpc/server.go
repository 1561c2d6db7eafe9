package routesgrpc

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/routeserver/answers"
)

// Server serves the published routes API.
type Server struct {
	cfg      Config
	grpc     *grpc.Server
	health   *health.Server
	apis     []string // the names of the services; all share one health status
	feed     *feed
	stopping chan struct{}
}

// New returns a server that answers once Serve is called.
func New(cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	m, err := newMetrics(cfg.Metrics)
	if err != nil {
		return nil, fmt.Errorf("routesgrpc: register metrics: %w", err)
	}
	s := &Server{
		cfg: cfg, grpc: grpc.NewServer(append(options(cfg.Credentials), cfg.Entrance.Options(narrowed...)...)...), health: health.NewServer(),
		feed: newFeed(cfg.Tables, cfg.Pause), stopping: make(chan struct{}),
	}
	served := &routes{
		cfg: cfg, metrics: m, feed: s.feed, stopping: s.stopping,
		requests: answers.Requests(), watches: callers.NewPool("watches", callers.Alike(maxWatches, eachWatches)),
	}
	s.grpc.RegisterService(service(served), served)
	if cfg.Register != nil {
		cfg.Register(s.grpc)
	}
	s.apis = slices.Sorted(maps.Keys(s.grpc.GetServiceInfo()))
	healthv1.RegisterHealthServer(s.grpc, s.health)
	reflection.Register(s.grpc)
	return s, nil
}

// Serve serves on a listener until ctx ends, then ends watches with UNAVAILABLE, waits StopWithin
// for other calls to finish, and returns nil. Any other end is an error. Call it once; it closes
// the listener.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	s.setHealth(false)
	served := make(chan error, 1)
	go func() { served <- s.grpc.Serve(listener) }()
	go s.reportHealth(ctx)
	go s.feed.run(ctx)
	s.cfg.Logger.Info("serving the routes API over gRPC", "address", listener.Addr().String())
	select {
	case err := <-served:
		return fmt.Errorf("serve the routes API on %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	s.stop()
	return nil
}

func (s *Server) stop() {
	s.health.Shutdown()
	close(s.stopping)
	hard := time.AfterFunc(s.cfg.StopWithin, s.grpc.Stop)
	defer hard.Stop()
	s.grpc.GracefulStop()
}

// reportHealth reports SERVING from the first whole table on. It never goes back: the last whole
// table is served until there is a newer one.
func (s *Server) reportHealth(ctx context.Context) {
	for {
		t, newer := s.cfg.Tables.Current()
		if t.Whole() {
			s.setHealth(true)
			return
		}
		select {
		case <-newer:
		case <-ctx.Done():
			return
		}
	}
}

func (s *Server) setHealth(serving bool) {
	as := healthv1.HealthCheckResponse_NOT_SERVING
	if serving {
		as = healthv1.HealthCheckResponse_SERVING
	}
	for _, api := range append([]string{""}, s.apis...) {
		s.health.SetServingStatus(api, as)
	}
}
