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
	feed     *feed
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
	at := s.feed.join()
	if !at.table.Whole() {
		return errCold
	}
	defer s.metrics.watcher()()
	filter := published.FilterOf(req)
	send := func(op *encoded) error {
		s.metrics.sent(op.op)
		return stream.SendMsg(op)
	}
	for _, r := range filter.Rules(at.table) {
		if err := send(encode(&routesv1.WorkloadRoutingRuleOp{Op: routesv1.WatchOp_ADD, Route: published.Rule(r)})); err != nil {
			return err
		}
	}
	if err := send(encode(&routesv1.WorkloadRoutingRuleOp{Op: routesv1.WatchOp_SYNCED})); err != nil {
		return err
	}
	for {
		select {
		case <-at.newer:
		case <-s.stopping:
			return errStopping
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		}
		var ops []*encoded
		ops, at = s.feed.next(at, filter)
		for _, op := range ops {
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
