package explain

import (
	"google.golang.org/protobuf/proto"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
)

// Since returns the event since which all events of a key have the same content as the newest: the
// first of those at the end of a history that are alike. False for an empty history.
func Since(history []event.Recorded, alike func(a, b proto.Message) bool) (event.Recorded, bool) {
	if len(history) == 0 {
		return event.Recorded{}, false
	}
	first := len(history) - 1
	for first > 0 && alike(history[first-1].Fact.Data, history[first].Fact.Data) {
		first--
	}
	return history[first], true
}

// sameServing: the rules that follow from two observations are the same.
func sameServing(a, b proto.Message) bool { return proto.Equal(serving(a), serving(b)) }

// serving takes out of an observation what no rule follows from.
func serving(data proto.Message) proto.Message {
	o, ok := data.(*factv1.WorkloadObserved)
	if !ok {
		return data
	}
	return &factv1.WorkloadObserved{
		Workload: o.GetWorkload(), Created: o.GetCreated(), Baseline: o.GetBaseline(),
		Services: o.GetServices(), Ready: o.GetReady(),
	}
}

// bothTombstones: neither of two events states anything.
func bothTombstones(a, b proto.Message) bool {
	return event.Fact{Data: a}.Tombstone() && event.Fact{Data: b}.Tombstone()
}

// both returns a comparison that reports whether two observations agree on one property.
func both(what func(*factv1.WorkloadObserved) bool) func(a, b proto.Message) bool {
	return func(a, b proto.Message) bool {
		was, before := a.(*factv1.WorkloadObserved)
		is, now := b.(*factv1.WorkloadObserved)
		return before && now && what(was) == what(is)
	}
}

// mapped returns a function that reports whether a Service of an observation maps to a port; 0 is
// any.
func mapped(workloadPort uint32) func(*factv1.WorkloadObserved) bool {
	return func(o *factv1.WorkloadObserved) bool {
		for _, pair := range o.GetServices() {
			for _, p := range pair.GetPorts() {
				if pair.GetTo() != "" && (workloadPort == 0 || p.GetWorkloadPort() == workloadPort) {
					return true
				}
			}
		}
		return false
	}
}

// naming reports whether two declarations state the same of a member that exists. The
// baseline in the declaration does not count.
func naming(key event.Key) func(a, b proto.Message) bool {
	return func(a, b proto.Message) bool {
		was, before := a.(*factv1.RoutingDeclared)
		is, now := b.(*factv1.RoutingDeclared)
		return before && now && proto.Equal(withoutBaseline(find(was, key)), withoutBaseline(find(is, key)))
	}
}

// withoutBaseline returns a member without the fields that count only while it does not exist.
func withoutBaseline(m *factv1.Member) *factv1.Member {
	if m == nil {
		return nil
	}
	return &factv1.Member{Kind: m.GetKind(), Namespace: m.GetNamespace(), Name: m.GetName(), Sandbox: m.GetSandbox(), Middlewares: m.GetMiddlewares()}
}

// find returns the entry of a member in a declaration, nil if it has none.
func find(d *factv1.RoutingDeclared, key event.Key) *factv1.Member {
	for _, m := range d.GetMembers() {
		if keyOf(m) == key {
			return m
		}
	}
	return nil
}

func keyOf(m *factv1.Member) event.Key {
	return event.Workload(m.GetKind(), m.GetNamespace(), m.GetName())
}
