package api

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/lists"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/api/failure"
	"switchyard.dev/routeserver/api/messages"
	"switchyard.dev/routeserver/explain"
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

// Above these, the stretch of the log between two versions is read as a whole,
// and not the history of each key that a change depends on.
const (
	shortStretch = 4096
	fewKeys      = 16
)

// Diff implements routingv1.RoutingServer.
func (s *Server) Diff(ctx context.Context, req *routingv1.DiffRequest) (*routingv1.DiffResponse, error) {
	if req.GetFrom().GetVersion() == nil {
		return nil, failure.Invalid("from", "say from which version on")
	}
	older, from, err := s.versions.At(ctx, "from", req.GetFrom())
	if err != nil {
		return nil, err
	}
	newer, to, err := s.versions.At(ctx, "to", req.GetTo())
	if err != nil {
		return nil, err
	}
	switch {
	case older.Pos().Epoch != newer.Pos().Epoch:
		return nil, s.versions.Failed(ctx, fmt.Errorf("version %d is of epoch %s and version %d of epoch %s: %w",
			older.Pos().Seq, older.Pos().Epoch, newer.Pos().Seq, newer.Pos().Epoch, eventbus.ErrEpochEnded))
	case older.Pos().Seq > newer.Pos().Seq:
		return nil, failure.Invalid("from", "version %d is newer than version %d: turn them round", older.Pos().Seq, newer.Pos().Seq)
	}
	causes := explain.NewCauses(older, messages.Filter(req.GetFilter()).Diff(older, newer))
	if err := s.causes(ctx, causes, older.Pos(), newer.Pos()); err != nil {
		return nil, s.versions.Failed(ctx, err)
	}
	out := &routingv1.DiffResponse{From: from, To: to}
	for _, c := range causes.Changes() {
		out.Changes = append(out.Changes, messages.Change(c.Change, c.Because...))
	}
	if !slices.Equal(older.KeyHeaders(), newer.KeyHeaders()) {
		declared, err := s.versions.History.Of(ctx, event.KeyHeaders, newer.Pos())
		if err != nil {
			return nil, s.versions.Failed(ctx, err)
		}
		if n := len(declared); n > 0 {
			out.KeyHeaders = messages.Event(declared[n-1])
		}
	}
	return out, nil
}

// causes passes to Causes the events between two versions that the changes depend on.
func (s *Server) causes(ctx context.Context, causes *explain.Causes, behind, upTo event.Pos) error {
	keys := routingKeys(causes.Changes())
	if len(keys) == 0 {
		return nil
	}
	if upTo.Seq-behind.Seq <= shortStretch || len(keys) > fewKeys {
		return s.versions.History.Between(ctx, behind, upTo, func(events []event.Recorded) error {
			causes.Take(events...)
			return ctx.Err()
		})
	}
	events, err := s.eventsOf(ctx, keys, behind, upTo)
	if err != nil {
		return err
	}
	causes.Take(events...)
	return nil
}

// eventsOf returns the events between two places on which the decisions of some
// routing keys depend, in order.
func (s *Server) eventsOf(ctx context.Context, routingKeys []string, behind, upTo event.Pos) ([]event.Recorded, error) {
	var all []event.Recorded
	read := map[event.Key]bool{}
	take := func(key event.Key) ([]event.Recorded, error) {
		if read[key] {
			return nil, nil
		}
		read[key] = true
		history, err := s.versions.History.Of(ctx, key, upTo)
		all = append(all, lists.Filter(history, func(e event.Recorded) bool { return e.Pos.Seq > behind.Seq })...)
		return history, err
	}
	for _, key := range routingKeys {
		ofKey, err := take(event.RoutingKey(key))
		if err != nil {
			return nil, err
		}
		for _, member := range explain.Keys(ofKey, behind.Seq) {
			if _, err := take(member); err != nil {
				return nil, err
			}
		}
	}
	slices.SortFunc(all, func(a, b event.Recorded) int { return cmp.Compare(a.Pos.Seq, b.Pos.Seq) })
	return all, nil
}

// routingKeys returns the routing keys of changes, each once.
func routingKeys(changes []explain.Change) []string {
	out := lists.Map(changes, func(c explain.Change) string { return c.RoutingKey })
	return lists.Unique(out)
}

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
