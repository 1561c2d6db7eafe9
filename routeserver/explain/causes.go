package explain

import (
	"google.golang.org/protobuf/proto"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/lists"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/routeserver/table"
)

// MaxCauses is how many events at most are named for one change: the newest.
const MaxCauses = 64

// Change is a decision that differs between two versions, and the events between
// them that made it so, oldest first: the last one decides. An event is one of
// them exactly when folding it changed the decision, so a fact stated again with
// the same content never is. Of a decision that went to and fro all are named,
// up to MaxCauses.
type Change struct {
	table.Change
	Because []event.Recorded
}

// Causes finds the events that caused the changes between two versions. Create one with NewCauses,
// pass the events between the versions to Take in order, then call Changes.
type Causes struct {
	at      table.Table
	changes []Change
	index   map[decision]int
}

// decision is what a rule's identity is.
type decision struct {
	baseline   table.Workload
	routingKey string
}

// NewCauses begins at the older version, with the changes (table.Diff) that are
// asked about.
func NewCauses(older table.Table, changes []table.Change) *Causes {
	c := &Causes{at: older, index: make(map[decision]int, len(changes))}
	for i, change := range changes {
		c.changes = append(c.changes, Change{Change: change})
		c.index[decision{change.Baseline, change.RoutingKey}] = i
	}
	return c
}

// Take folds the next events. Events can be limited to the keys that the changes depend on (Keys):
// others make no difference.
func (c *Causes) Take(events ...event.Recorded) {
	for _, e := range events {
		next := c.at.Apply(e)
		for _, d := range table.Diff(c.at, next) {
			if i, asked := c.index[decision{d.Baseline, d.RoutingKey}]; asked {
				change := &c.changes[i]
				change.Because = append(change.Because, e)
				change.Because = change.Because[max(0, len(change.Because)-MaxCauses):]
			}
		}
		c.at = next
	}
}

// Changes returns the changes, in their order, with their causes.
func (c *Causes) Changes() []Change { return c.changes }

// Keys returns the keys of the members on which the decisions of one routing key
// depended behind a sequence: all that any declaration named since, or just
// before. Give it the whole history of the routing key.
func Keys(ofKey []event.Recorded, behind uint64) []event.Key {
	var out []event.Key
	for i, e := range ofKey {
		before := i+1 < len(ofKey) && ofKey[i+1].Pos.Seq <= behind
		d, ok := e.Fact.Data.(*factv1.RoutingDeclared)
		if before || !ok {
			continue
		}
		for _, m := range d.GetMembers() {
			out = append(out, keyOf(m))
		}
	}
	return lists.Unique(out)
}

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
	return lists.First(d.GetMembers(), func(m *factv1.Member) bool { return keyOf(m) == key })
}

func keyOf(m *factv1.Member) event.Key {
	return event.Workload(m.GetKind(), m.GetNamespace(), m.GetName())
}
