package api

import (
	"cmp"
	"context"
	"slices"

	"switchyard.dev/eventbus/event"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
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
		return nil, invalid("limit", "%d is not between 0 and %d", limit, largestLimit)
	}
	if limit == 0 {
		limit = ordinaryLimit
	}
	keys, err := s.keysOf(ctx, req)
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	kept, err := s.cfg.Log.Kept(ctx)
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	var all []event.Recorded
	for _, key := range keys {
		of, err := s.cfg.History.Of(ctx, key, event.Pos{})
		if err != nil {
			return nil, s.failed(ctx, err)
		}
		all = append(all, of[max(0, len(of)-limit):]...)
	}
	slices.SortFunc(all, func(a, b event.Recorded) int { return cmp.Compare(a.Pos.Seq, b.Pos.Seq) })
	out := &routingv1.HistoryResponse{Floor: positionOf(kept.Floor)}
	for _, e := range all[max(0, len(all)-limit):] {
		out.Events = append(out.Events, eventOf(e))
	}
	return out, nil
}

// keysOf returns the keys whose events a request asks for.
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
		return nil, invalid("routing_key", "ask for one of: routing_key, member, baseline")
	case req.GetRoutingKey() != "":
		return []event.Key{event.RoutingKey(req.GetRoutingKey())}, nil
	case m != nil && (m.GetKind() == "" || m.GetNamespace() == "" || m.GetName() == ""):
		return nil, invalid("member", "name one object by kind, namespace and name")
	case m != nil:
		return []event.Key{event.Workload(m.GetKind(), m.GetNamespace(), m.GetName())}, nil
	case w.GetKind() == "" || w.GetNamespace() == "" || w.GetName() == "":
		return nil, invalid("baseline", "name one workload by kind, namespace and name")
	}
	tip, err := s.cfg.Log.Tip(ctx)
	if err == nil && tip.Seq > 0 {
		err = s.cfg.History.Reached(ctx, tip)
	}
	return s.cfg.History.MembersOf(tableWorkload(w)), err
}
