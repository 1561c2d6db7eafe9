package routesgrpc

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"switchyard.dev/eventbus/callers"
	routesv1 "switchyard.dev/protos/gen/routes"
	"switchyard.dev/routeserver/answers"
	"switchyard.dev/routeserver/door"
	"switchyard.dev/routeserver/published"
)

// narrowed are the methods with responses that are restricted to the caller's scope.
var narrowed = []string{
	routesv1.Routes_GetWorkloadRoutingRules_FullMethodName,
	routesv1.Routes_WatchWorkloadRoutingRules_FullMethodName,
	routesv1.Routes_GetClusterServices_FullMethodName,
}

// errCold is what callers get while there is no whole table. An empty answer
// would make them forget every rule.
var errCold = status.Error(codes.Unavailable, "the routing table is not whole yet: try again")

// errStopping ends watches when the server does.
var errStopping = status.Error(codes.Unavailable, "this route server is stopping: watch again")

// routes implements routes.Routes; for GetWorkloadRoutingRules see shared.go.
type routes struct {
	routesv1.UnimplementedRoutesServer
	cfg      Config
	metrics  *metrics
	feed     *feed
	stopping <-chan struct{}
	// answers are what readers of rules are sent.
	answers           answers.Store
	requests, watches *callers.Pool
}

// WatchWorkloadRoutingRules implements routes.Routes.
func (s *routes) WatchWorkloadRoutingRules(req *routesv1.WorkloadRoutingRulesRequest, stream grpc.ServerStreamingServer[routesv1.WorkloadRoutingRuleOp]) error {
	filter, err := door.Narrow(stream.Context(), published.FilterOf(req))
	if err != nil {
		return err
	}
	at := s.feed.join()
	if !at.table.Whole() {
		return errCold
	}
	leave, err := enter(stream.Context(), s.watches)
	if err != nil {
		return err
	}
	defer leave()
	defer s.metrics.watcher()()
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
	if namespace, part := door.Scope(ctx); part {
		services = slices.DeleteFunc(slices.Clone(services), func(one *routesv1.ClusterService) bool {
			return !strings.HasSuffix(one.GetHostname(), "."+namespace+".svc")
		})
	}
	return &routesv1.GetClusterServicesResponse{Services: services}, nil
}
