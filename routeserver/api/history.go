package api

import (
	"cmp"
	"context"
	"slices"

	"switchyard.dev/eventbus/event"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/api/failure"
	"switchyard.dev/routeserver/api/messages"
	"switchyard.dev/routeserver/table"
)

// The numbers of events in a History.
const (
	ordinaryLimit = 100
	largestLimit  = 10_000
)

// History implements routingv1.RoutingServer.
func (s *Server) History(ctx context.Context, req *routingv1.HistoryRequest) (*routingv1.HistoryResponse, error) {
	limit := int(req.GetLimit())
	if limit < 0 || limit > largestLimit {
		return nil, failure.Invalid("limit", "%d is not between 0 and %d", limit, largestLimit)
	}
	limit = cmp.Or(limit, ordinaryLimit)
	keys, err := s.keysOf(ctx, req)
	if err != nil {
		return nil, s.versions.Failed(ctx, err)
	}
	kept, err := s.versions.Log.Kept(ctx)
	if err != nil {
		return nil, s.versions.Failed(ctx, err)
	}
	var all []event.Recorded
	for _, key := range keys {
		of, err := s.versions.History.Of(ctx, key, event.Pos{})
		if err != nil {
			return nil, s.versions.Failed(ctx, err)
		}
		all = append(all, of[max(0, len(of)-limit):]...)
	}
	slices.SortFunc(all, func(a, b event.Recorded) int { return cmp.Compare(a.Pos.Seq, b.Pos.Seq) })
	return &routingv1.HistoryResponse{Floor: messages.Position(kept.Floor), Events: messages.Events(all[max(0, len(all)-limit):])}, nil
}

// keysOf returns the event keys that a request selects.
func (s *Server) keysOf(ctx context.Context, req *routingv1.HistoryRequest) ([]event.Key, error) {
	m, w := req.GetMember(), req.GetBaseline()
	asked := 0
	for _, is := range []bool{req.GetRoutingKey() != "", m != nil, w != nil} {
		if is {
			asked++
		}
	}
	switch {
	case asked != 1:
		return nil, failure.Invalid("routing_key", "ask for one of: routing_key, member, baseline")
	case req.GetRoutingKey() != "":
		return []event.Key{event.RoutingKey(req.GetRoutingKey())}, nil
	case m != nil && !messages.Named(m):
		return nil, failure.Invalid("member", "name one object by kind, namespace and name")
	case m != nil:
		return []event.Key{event.Workload(m.GetKind(), m.GetNamespace(), m.GetName())}, nil
	case !messages.Named(w):
		return nil, failure.Invalid("baseline", "name one workload by kind, namespace and name")
	}
	tip, err := s.versions.Log.Tip(ctx)
	if err == nil && tip.Seq > 0 {
		err = s.versions.History.Reached(ctx, tip)
	}
	return s.versions.History.MembersOf(table.WorkloadOf(w)), err
}
