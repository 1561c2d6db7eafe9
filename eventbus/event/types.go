package event

import (
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
	switch f.Data.(type) {
	case *factv1.RoutingDeclared:
		return TypeRoutingDeclared
	case *factv1.RoutingWithdrawn:
		return TypeRoutingWithdrawn
	case *factv1.WorkloadObserved:
		return TypeWorkloadObserved
	case *factv1.WorkloadWithdrawn:
		return TypeWorkloadWithdrawn
	case *factv1.Complete:
		return TypeComplete
	case *factv1.Floor:
		return TypeFloor
	case *factv1.KeyHeadersDeclared:
		return TypeKeyHeadersDeclared
	}
	return ""
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
	switch typ {
	case TypeRoutingDeclared:
		return &factv1.RoutingDeclared{}
	case TypeRoutingWithdrawn:
		return &factv1.RoutingWithdrawn{}
	case TypeWorkloadObserved:
		return &factv1.WorkloadObserved{}
	case TypeWorkloadWithdrawn:
		return &factv1.WorkloadWithdrawn{}
	case TypeComplete:
		return &factv1.Complete{}
	case TypeFloor:
		return &factv1.Floor{}
	case TypeKeyHeadersDeclared:
		return &factv1.KeyHeadersDeclared{}
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
