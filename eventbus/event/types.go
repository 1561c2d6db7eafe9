package event

import (
	"reflect"
	"strings"

	"google.golang.org/protobuf/proto"

	factv1 "switchyard.dev/protos/gen/fact/v1"
)

// The CloudEvents types of the facts. They are part of the stored form: never
// change one, add the next version beside it.
const (
	TypeRoutingDeclared   = "dev.switchyard.routing.declared.v1"
	TypeRoutingWithdrawn  = "dev.switchyard.routing.withdrawn.v1"
	TypeWorkloadObserved  = "dev.switchyard.workload.observed.v1"
	TypeWorkloadWithdrawn = "dev.switchyard.workload.withdrawn.v1"
	TypeComplete          = "dev.switchyard.log.complete.v1"
	TypeFloor             = "dev.switchyard.log.floor.v1"

	TypeKeyHeadersDeclared = "dev.switchyard.keyheaders.declared.v1"
)

// Type is the CloudEvents type of the fact, decided by its data; empty when
// there is none for such data.
func (f Fact) Type() string {
	for typ, data := range dataOf {
		if reflect.TypeOf(data) == reflect.TypeOf(f.Data) {
			return typ
		}
	}
	return ""
}

// dataOf has the data of the events of each type.
var dataOf = map[string]proto.Message{
	TypeRoutingDeclared:    (*factv1.RoutingDeclared)(nil),
	TypeRoutingWithdrawn:   (*factv1.RoutingWithdrawn)(nil),
	TypeWorkloadObserved:   (*factv1.WorkloadObserved)(nil),
	TypeWorkloadWithdrawn:  (*factv1.WorkloadWithdrawn)(nil),
	TypeComplete:           (*factv1.Complete)(nil),
	TypeFloor:              (*factv1.Floor)(nil),
	TypeKeyHeadersDeclared: (*factv1.KeyHeadersDeclared)(nil),
}

// Tombstone reports whether the fact withdraws its key. Tombstones stay in the log, so that a
// reader that was disconnected learns of the withdrawal. A declaration of no headers is one: a
// log that never had another needs none.
func (f Fact) Tombstone() bool {
	switch d := f.Data.(type) {
	case *factv1.RoutingWithdrawn, *factv1.WorkloadWithdrawn:
		return true
	case *factv1.KeyHeadersDeclared:
		return len(d.GetNames()) == 0
	}
	return false
}

// newData returns an empty message for the data of a type; nil when the type is
// not known to this version of the program.
func newData(typ string) proto.Message {
	if data, known := dataOf[typ]; known {
		return data.ProtoReflect().New().Interface()
	}
	return nil
}

// keyOfData returns the key of a fact with this data. The data names its object, so a fact with
// another key is a mistake or a damaged record.
func keyOfData(data proto.Message) Key {
	switch d := data.(type) {
	case *factv1.RoutingDeclared:
		return RoutingKey(d.GetRoutingKey())
	case *factv1.RoutingWithdrawn:
		return RoutingKey(d.GetRoutingKey())
	case *factv1.WorkloadObserved:
		return keyOfObject(d.GetWorkload())
	case *factv1.WorkloadWithdrawn:
		return keyOfObject(d.GetWorkload())
	case *factv1.Floor:
		return LogFloor
	case *factv1.KeyHeadersDeclared:
		return KeyHeaders
	default:
		return Log
	}
}

func keyOfObject(o *factv1.ObjectRef) Key {
	return Workload(o.GetKind(), o.GetNamespace(), o.GetName())
}

// Withdrawal returns the data of the fact that withdraws a key; false for a key that cannot be
// withdrawn.
func Withdrawal(key Key) (proto.Message, bool) {
	parts := strings.SplitN(string(key), "/", 2)
	if parts[0] == keyHead && len(parts) == 2 {
		return &factv1.RoutingWithdrawn{RoutingKey: parts[1]}, true
	}
	parts = strings.Split(string(key), "/")
	if parts[0] == workloadHead && len(parts) == 4 {
		return &factv1.WorkloadWithdrawn{Workload: &factv1.ObjectRef{Kind: parts[1], Namespace: parts[2], Name: parts[3]}}, true
	}
	return nil, false
}
