// Package messages writes values of the table and of the log as messages of our own API,
// and reads those of its requests.
package messages

import (
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/lists"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/table"
)

// Position returns a place in the log; nil for the zero one.
func Position(p event.Pos) *routingv1.Position {
	if p == (event.Pos{}) {
		return nil
	}
	return &routingv1.Position{Epoch: p.Epoch, Sequence: p.Seq}
}

// At returns the version at a place in the log.
func At(p event.Pos) *routingv1.At {
	return &routingv1.At{Version: &routingv1.At_Position{Position: Position(p)}}
}

// Workload returns a baseline.
func Workload(w table.Workload) *routingv1.Workload {
	return &routingv1.Workload{Kind: w.Kind, Namespace: w.Namespace, Name: w.Name}
}

// Named reports whether an object of a request has all that it takes to be found.
func Named(o table.Named) bool {
	return o.GetKind() != "" && o.GetNamespace() != "" && o.GetName() != ""
}

func member(m table.Member) *routingv1.Member {
	return &routingv1.Member{Kind: m.Kind, Namespace: m.Namespace, Name: m.Name, Uid: m.UID}
}

// Rule returns a rule; nil for nil.
func Rule(r *table.Rule) *routingv1.Rule {
	if r == nil {
		return nil
	}
	out := &routingv1.Rule{
		Baseline: Workload(r.Baseline), RoutingKey: r.RoutingKey, Sandbox: r.Sandbox,
		Member: member(r.Member), Ready: r.Ready,
		DeclaredSequence: r.Declared, ObservedSequence: r.Observed, KeptAtBaseline: r.Kept(),
	}
	for _, m := range r.Mappings {
		mapping := &routingv1.Mapping{WorkloadPort: m.WorkloadPort}
		for _, d := range m.Destinations {
			mapping.Destinations = append(mapping.Destinations, &routingv1.Destination{Host: d.Host, Port: d.Port, Address: d.Address})
		}
		out.Mappings = append(out.Mappings, mapping)
	}
	return out
}

// Change returns a decision that differs, and the events that made it so.
func Change(c table.Change, because ...event.Recorded) *routingv1.Change {
	return &routingv1.Change{
		Baseline: Workload(c.Baseline), RoutingKey: c.RoutingKey,
		Old: Rule(c.Old), New: Rule(c.New), WorkloadPorts: ports(c.Old, c.New), Because: Events(because),
	}
}

// ports returns the ports with different destinations under the two rules, sorted:
// those with other mappings, or all when the rules differ in more than mappings (another sandbox,
// ready or not). Either rule can be nil.
func ports(was, is *table.Rule) []uint32 {
	mappings := func(r *table.Rule) map[uint32][]table.Destination {
		byPort := map[uint32][]table.Destination{}
		if r != nil {
			for _, m := range r.Mappings {
				byPort[m.WorkloadPort] = m.Destinations
			}
		}
		return byPort
	}
	before, after := mappings(was), mappings(is)
	all := was == nil || is == nil || was.Member != is.Member || was.Ready != is.Ready
	var ports []uint32
	for port, to := range before {
		if other, both := after[port]; all || !both || !slices.Equal(to, other) {
			ports = append(ports, port)
		}
	}
	for port := range after {
		if _, both := before[port]; !both {
			ports = append(ports, port)
		}
	}
	slices.Sort(ports)
	return ports
}

// Conflict returns the winner and the loser of a baseline.
func Conflict(c table.Conflict) *routingv1.Conflict {
	return &routingv1.Conflict{
		RoutingKey: c.RoutingKey, Baseline: Workload(c.Baseline),
		Holder: member(c.Holder), HolderSandbox: c.HolderSandbox,
		Loser: member(c.Loser), LoserSandbox: c.LoserSandbox,
	}
}

// Filter reads the filter of a request; nil narrows nothing.
func Filter(f *routingv1.Filter) table.Filter {
	return table.Filter{
		Kind: f.GetKind(), Namespace: f.GetNamespace(), Name: f.GetName(),
		RoutingKey: f.GetRoutingKey(), Sandbox: f.GetSandbox(),
	}
}

// Event returns an event of the log. One of a kind that this version does not
// know has no statement.
func Event(r event.Recorded) *routingv1.Event {
	c := r.Fact.Cause
	out := &routingv1.Event{
		Position: Position(r.Pos), Key: string(r.Fact.Key), Statement: Statement(r.Fact.Data),
		Cause: &routingv1.Cause{
			Kind: c.Kind, Namespace: c.Namespace, Name: c.Name, Uid: c.UID,
			Generation: c.Generation, Manager: c.Manager, Trace: c.Trace, Via: c.Via, Author: c.Author,
		},
	}
	if !r.Fact.Time.IsZero() {
		out.Stated = timestamppb.New(r.Fact.Time)
	}
	if !r.At.IsZero() {
		out.Recorded = timestamppb.New(r.At)
	}
	return out
}

// Events returns events of the log, in their order.
func Events(recorded []event.Recorded) []*routingv1.Event {
	return lists.Map(recorded, Event)
}

// kinds is the oneof field of a Statement, with one case for each kind of fact.
var kinds = (*routingv1.Statement)(nil).ProtoReflect().Descriptor().Oneofs().ByName("says")

// Statement returns what the data of a fact state; nil for data of no known kind.
func Statement(data proto.Message) *routingv1.Statement {
	if data == nil {
		return nil
	}
	stated := data.ProtoReflect()
	for i := range kinds.Fields().Len() {
		if kind := kinds.Fields().Get(i); kind.Message().FullName() == stated.Descriptor().FullName() {
			out := &routingv1.Statement{}
			out.ProtoReflect().Set(kind, protoreflect.ValueOfMessage(stated))
			return out
		}
	}
	return nil
}

// Data returns the data of a fact that Statement wrote; nil when the statement is empty.
func Data(s *routingv1.Statement) proto.Message {
	kind := s.ProtoReflect().WhichOneof(kinds)
	if kind == nil {
		return nil
	}
	return s.ProtoReflect().Get(kind).Message().Interface()
}

// StoredEvent returns an event as it lies in the log.
func StoredEvent(e event.Stored) *routingv1.StoredEvent {
	return &routingv1.StoredEvent{
		Position: Position(e.Pos), Subject: e.Message.Subject, Header: e.Message.Header, Data: e.Message.Data,
	}
}

// Stored reads what StoredEvent wrote.
func Stored(e *routingv1.StoredEvent) event.Stored {
	return event.Stored{
		Pos:     event.Pos{Epoch: e.GetPosition().GetEpoch(), Seq: e.GetPosition().GetSequence()},
		Message: event.Message{Subject: e.GetSubject(), Header: e.GetHeader(), Data: e.GetData()},
	}
}
