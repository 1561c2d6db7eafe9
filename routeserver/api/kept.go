package api

import (
	"context"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
)

// Kept implements routingv1.RoutingServer.
func (s *Server) Kept(ctx context.Context, _ *routingv1.KeptRequest) (*routingv1.KeptResponse, error) {
	newest, _ := s.cfg.Tables.Current()
	if !newest.Whole() {
		return nil, notWhole()
	}
	kept, err := s.cfg.Log.Kept(ctx)
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	oldest, err := s.cfg.History.Oldest(ctx)
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	return &routingv1.KeptResponse{
		Oldest: s.versionOf(oldest), Newest: s.versionOf(newest),
		Floor: positionOf(kept.Floor), Bytes: kept.Bytes, MaxBytes: kept.MaxBytes,
	}, nil
}
