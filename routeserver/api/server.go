package api

import (
	"context"
	"time"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/table"
)

// Server answers switchyard.routing.v1.Routing. Make one with New, and Register
// it on one or more gRPC servers.
type Server struct {
	routingv1.UnimplementedRoutingServer
	limits
	cfg     Config
	metrics *metrics
	others  others
	here    shared[[]Sidecar]
	// rested is when the sidecars here may be gone through again. Only whose turn
	// it is to do that reads and writes it.
	rested time.Time
	// stopping ends with Stop.
	stopping context.Context
	stop     context.CancelFunc
}

// New returns a server. The error says what is wrong with the Config, or that a
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
	s := &Server{cfg: cfg, limits: newLimits(cfg), metrics: m}
	s.others = others{peers: cfg.Peers, self: cfg.Name, asked: map[table.Workload]*asked{}}
	s.stopping, s.stop = context.WithCancel(context.Background())
	return s, nil
}

// Stop ends streams, waits, and calls that wait for a position with UNAVAILABLE,
// so that the servers can end gracefully. Safe to call twice.
func (s *Server) Stop() { s.stop() }

// untilStop returns a context that ends with Stop too, for errStopping. The caller
// calls the function when done.
func (s *Server) untilStop(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(s.stopping, func() { cancel(errStopping) })
	return ctx, func() {
		unhook()
		cancel(nil)
	}
}
