package api

import (
	"sync"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
)

// Server answers switchyard.routing.v1.Routing. Make one with New, and Register
// it on one or more gRPC servers.
type Server struct {
	routingv1.UnimplementedRoutingServer
	limits
	cfg     Config
	metrics *metrics
	// stopping is closed by Stop.
	stopping chan struct{}
	stop     sync.Once
}

// New gives a server. The error says what is wrong with the Config, or that a
// metric could not be registered.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	m, err := newMetrics(cfg.Metrics)
	if err != nil {
		return nil, err
	}
	return &Server{cfg: cfg, limits: newLimits(cfg), metrics: m, stopping: make(chan struct{})}, nil
}

// Stop ends streams and waits with UNAVAILABLE, so that the gRPC servers can end
// gracefully. Safe to call twice.
func (s *Server) Stop() { s.stop.Do(func() { close(s.stopping) }) }
