package messages

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/lists"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
)

// Event returns an event of the log. One of a kind that this version does not
// know has no statement.
func Event(r event.Recorded) *routingv1.Event {
	c := r.Fact.Cause
	out := &routingv1.Event{
		Position: Position(r.Pos), Key: string(r.Fact.Key), Statement: Statement(r.Fact.Data),
		Cause: &routingv1.Cause{
			Kind: c.Kind, Namespace: c.Namespace, Name: c.Name, Uid: c.UID,
			Generation: c.Generation, Manager: c.Manager, Trace: c.Trace, Via: c.Via,
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
