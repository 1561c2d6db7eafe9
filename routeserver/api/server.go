package api

import (
	"context"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/api/receipts"
	"switchyard.dev/routeserver/api/versions"
)

// Server answers switchyard.routing.v1.Routing. Make one with New, and Register
// it on one or more gRPC servers.
type Server struct {
	routingv1.UnimplementedRoutingServer
	limits
	cfg      Config
	metrics  *metrics
	versions *versions.Versions
	receipts *receipts.Receipts
}

// New returns a server. It returns an error if the Config is invalid or a metric cannot be
// registered.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	m, err := newMetrics(cfg.Metrics)
	if err != nil {
		return nil, err
	}
	v := versions.New(cfg.Tables, cfg.Log, cfg.History, cfg.Logger)
	return &Server{
		cfg: cfg, limits: newLimits(cfg), metrics: m, versions: v,
		receipts: receipts.New(v, cfg.Sidecars, cfg.Peers, cfg.Name),
	}, nil
}

// Stop ends streams, waits, and calls that wait for a position with UNAVAILABLE,
// so that the servers can end gracefully. Safe to call twice.
func (s *Server) Stop() { s.versions.Stop() }

// Sidecars implements routingv1.RoutingServer.
func (s *Server) Sidecars(ctx context.Context, req *routingv1.SidecarsRequest) (*routingv1.SidecarsResponse, error) {
	return s.receipts.Sidecars(ctx, req)
}

// Wait implements routingv1.RoutingServer.
func (s *Server) Wait(ctx context.Context, req *routingv1.WaitRequest) (*routingv1.WaitResponse, error) {
	return s.receipts.Wait(ctx, req)
}
