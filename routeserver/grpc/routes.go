package routesgrpc

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	routesv1 "switchyard.dev/protos/gen/routes"
	"switchyard.dev/routeserver/published"
)

// errCold is what callers get while there is no whole table. An empty answer
// would make them forget every rule.
var errCold = status.Error(codes.Unavailable, "the routing table is not whole yet: try again")

// errStopping ends watches when the server does.
var errStopping = status.Error(codes.Unavailable, "this route server is stopping: watch again")

// routes implements routes.Routes.
type routes struct {
	routesv1.UnimplementedRoutesServer
	cfg      Config
	metrics  *metrics
	stopping <-chan struct{}
}

// GetWorkloadRoutingRules implements routes.Routes.
func (s *routes) GetWorkloadRoutingRules(_ context.Context, req *routesv1.WorkloadRoutingRulesRequest) (*routesv1.GetWorkloadRoutingRulesResponse, error) {
	t, _ := s.cfg.Tables.Current()
	if !t.Whole() {
		return nil, errCold
	}
	out := &routesv1.GetWorkloadRoutingRulesResponse{}
	for _, r := range published.FilterOf(req).Rules(t) {
		out.RoutingRules = append(out.RoutingRules, published.Rule(r))
	}
	return out, nil
}

// WatchWorkloadRoutingRules implements routes.Routes.
func (s *routes) WatchWorkloadRoutingRules(req *routesv1.WorkloadRoutingRulesRequest, stream grpc.ServerStreamingServer[routesv1.WorkloadRoutingRuleOp]) error {
	t, newer := s.cfg.Tables.Current()
	if !t.Whole() {
		return errCold
	}
	defer s.metrics.watcher()()
	filter := published.FilterOf(req)
	send := func(op *routesv1.WorkloadRoutingRuleOp) error {
		s.metrics.sent(op.GetOp())
		return stream.Send(op)
	}
	for _, r := range filter.Rules(t) {
		if err := send(&routesv1.WorkloadRoutingRuleOp{Op: routesv1.WatchOp_ADD, Route: published.Rule(r)}); err != nil {
			return err
		}
	}
	if err := send(&routesv1.WorkloadRoutingRuleOp{Op: routesv1.WatchOp_SYNCED}); err != nil {
		return err
	}
	for {
		select {
		case <-newer:
		case <-s.stopping:
			return errStopping
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		}
		told := t
		t, newer = s.cfg.Tables.Current()
		for _, op := range filter.Ops(told, t) {
			if err := send(op); err != nil {
				return err
			}
		}
	}
}

// GetClusterServices implements routes.Routes.
func (s *routes) GetClusterServices(ctx context.Context, _ *routesv1.GetClusterServicesRequest) (*routesv1.GetClusterServicesResponse, error) {
	if s.cfg.Services == nil {
		return nil, status.Error(codes.Unimplemented, "this route server runs without access to the services of a cluster")
	}
	services, err := s.cfg.Services.List(ctx)
	if err != nil {
		return nil, status.Errorf(codes.Unavailable, "the services of the cluster are not known: %v", err)
	}
	return &routesv1.GetClusterServicesResponse{Services: services}, nil
}
