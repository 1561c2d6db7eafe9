package api

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/lists"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/api/failure"
	"switchyard.dev/routeserver/api/messages"
	"switchyard.dev/routeserver/table"
)

// maxStatements is how many statements a dry run may have.
const maxStatements = 1_000

// DryRun implements routingv1.RoutingServer. The statements are folded onto the
// newest table as if they came next in the log.
func (s *Server) DryRun(ctx context.Context, req *routingv1.DryRunRequest) (*routingv1.DryRunResponse, error) {
	if n := len(req.GetStatements()); n == 0 || n > maxStatements {
		return nil, failure.Invalid("statements", "give 1 to %d of them, not %d", maxStatements, n)
	}
	t, version, err := s.versions.At(ctx, "", nil)
	if err != nil {
		return nil, err
	}
	next := make([]event.Recorded, 0, len(req.GetStatements()))
	for i, statement := range req.GetStatements() {
		data, err := hypothetical(statement)
		if err != nil {
			return nil, failure.Invalid(fmt.Sprintf("statements[%d]", i), "%v", err)
		}
		pos := event.Pos{Epoch: t.Pos().Epoch, Seq: t.Pos().Seq + uint64(i) + 1}
		next = append(next, event.Recorded{Pos: pos, Fact: event.Fact{Data: data}})
	}
	then := t.Apply(next...)
	out := &routingv1.DryRunResponse{Version: version, Conflicts: newConflicts(t, then)}
	for _, c := range table.Diff(t, then) {
		out.Changes = append(out.Changes, messages.Change(c))
	}
	return out, nil
}

// newConflicts returns the conflicts of one table that another does not have.
func newConflicts(older, newer table.Table) []*routingv1.Conflict {
	known := lists.Set(older.Conflicts())
	return lists.Map(lists.Filter(newer.Conflicts(), func(c table.Conflict) bool { return !known[c] }), messages.Conflict)
}

// hypothetical returns the data of a statement that could be recorded and that affects the table,
// or an error if it is invalid.
func hypothetical(s *routingv1.Statement) (proto.Message, error) {
	data := messages.Data(s)
	var key event.Key
	switch d := data.(type) {
	case *factv1.RoutingDeclared:
		key = event.RoutingKey(d.GetRoutingKey())
		for _, m := range d.GetMembers() {
			if !messages.Named(m) {
				return nil, fmt.Errorf("a member needs kind, namespace and name, and has %q, %q, %q", m.GetKind(), m.GetNamespace(), m.GetName())
			}
		}
	case *factv1.RoutingWithdrawn:
		key = event.RoutingKey(d.GetRoutingKey())
	case *factv1.WorkloadObserved:
		key = keyOfObject(d.GetWorkload())
		if !messages.Named(d.GetBaseline()) {
			return nil, fmt.Errorf("the baseline needs kind, namespace and name")
		}
	case *factv1.WorkloadWithdrawn:
		key = keyOfObject(d.GetWorkload())
	default:
		return nil, fmt.Errorf("it is not a fact about a routing key or a workload")
	}
	if key == event.RoutingKey("") {
		return nil, fmt.Errorf("the routing key is empty")
	}
	if key == "" {
		return nil, fmt.Errorf("the workload needs kind, namespace and name")
	}
	written, err := event.Encode(event.Fact{Key: key, Data: data})
	if err != nil {
		return nil, err
	}
	if len(written.Data) > eventbus.MaxEvent {
		return nil, fmt.Errorf("it takes %d bytes, more than an event may have (%d)", len(written.Data), eventbus.MaxEvent)
	}
	return data, nil
}

// keyOfObject is the key of facts about an object; "" when it is not named fully.
func keyOfObject(o *factv1.ObjectRef) event.Key {
	if !messages.Named(o) {
		return ""
	}
	return event.Workload(o.GetKind(), o.GetNamespace(), o.GetName())
}
