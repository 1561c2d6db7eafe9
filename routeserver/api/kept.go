package api

import (
	"context"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/api/failure"
	"switchyard.dev/routeserver/api/messages"
)

// Kept implements routingv1.RoutingServer.
func (s *Server) Kept(ctx context.Context, _ *routingv1.KeptRequest) (*routingv1.KeptResponse, error) {
	if t, _ := s.versions.Tables.Current(); !t.Whole() {
		return nil, failure.NotWhole()
	}
	kept, err := s.versions.Log.Kept(ctx)
	if err != nil {
		return nil, s.versions.Failed(ctx, err)
	}
	oldest, err := s.versions.History.Oldest(ctx)
	if err != nil {
		return nil, s.versions.Failed(ctx, err)
	}
	// The table that is served may be older still than what the log has just forgotten.
	newest, err := s.versions.Reach(ctx, oldest.Pos())
	if err != nil {
		return nil, s.versions.Failed(ctx, err)
	}
	return &routingv1.KeptResponse{
		Oldest: s.versions.Version(oldest), Newest: s.versions.Version(newest),
		Floor: messages.Position(kept.Floor), Bytes: kept.Bytes, MaxBytes: kept.MaxBytes,
	}, nil
}
