package table

import (
	"slices"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/routeserver/table/hamt"
)

// declared is the newest thing said about a routing key.
type declared struct {
	seq uint64
	// members is empty for a key that was withdrawn.
	members []declaredMember
	// rules are those that the key has now, sorted by baseline.
	rules []*Rule
}

type declaredMember struct {
	id      memberID
	sandbox string
}

// memberID names a sandboxed workload.
type memberID struct{ kind, namespace, name string }

// observed is the newest thing said about a sandboxed workload.
type observed struct {
	// seq is 0 for a workload that a key names and that nothing was said about.
	seq     uint64
	created age
	// shape has what all rules of this member have in common, or is nil when the
	// workload is not there. It is one of these rules, if there is one: most
	// members serve a single key, and need no second copy.
	shape *Rule
	// namedBy are the routing keys that name it, sorted.
	namedBy []string
}

// Apply gives the table with these facts folded in. See the package comment for
// what it promises; it reads neither Fact.Time nor anything outside the facts.
// Giving many facts at once costs less than one after the other.
func (t Table) Apply(recs ...event.Recorded) Table {
	t.edit = &hamt.Edit{}
	touched := make(map[string]struct{})
	for _, rec := range recs {
		t.fold(rec, touched)
	}
	for routingKey := range touched {
		t.join(routingKey)
	}
	t.edit = nil
	return t
}

// fold takes in one fact and notes the routing keys whose rules may differ now.
func (t *Table) fold(rec event.Recorded, touched map[string]struct{}) {
	if rec.Pos.Epoch == "" || rec.Pos.Seq == 0 {
		return // not a place in any log
	}
	if t.pos.Epoch == "" {
		t.pos.Epoch = rec.Pos.Epoch
	}
	if t.pos.Epoch != rec.Pos.Epoch {
		return
	}
	t.pos.Seq = max(t.pos.Seq, rec.Pos.Seq)
	switch data := rec.Fact.Data.(type) {
	case *factv1.RoutingDeclared:
		t.declare(rec.Pos.Seq, data.GetRoutingKey(), declaredMembers(data), touched)
	case *factv1.RoutingWithdrawn:
		t.declare(rec.Pos.Seq, data.GetRoutingKey(), nil, touched)
	case *factv1.WorkloadObserved:
		t.observe(rec.Pos.Seq, idOf(data.GetWorkload()), created(data), shapeOf(data), touched)
	case *factv1.WorkloadWithdrawn:
		t.observe(rec.Pos.Seq, idOf(data.GetWorkload()), age{}, nil, touched)
	case *factv1.Complete:
		t.whole = t.whole || data != nil
	}
}

func (t *Table) declare(seq uint64, routingKey string, members []declaredMember, touched map[string]struct{}) {
	was, known := t.keys.Get(routingKey)
	if !known {
		was = &declared{}
	}
	if routingKey == "" || seq <= was.seq {
		return
	}
	for _, m := range was.members {
		if !names(members, m.id) {
			t.nameMember(m.id, func(keys []string) []string { return without(keys, routingKey) })
		}
	}
	for _, m := range members {
		if !names(was.members, m.id) {
			t.nameMember(m.id, func(keys []string) []string { return with(keys, routingKey) })
		}
	}
	t.keys = t.keys.With(t.edit, routingKey, &declared{seq: seq, members: members, rules: was.rules})
	touched[routingKey] = struct{}{}
}

// nameMember changes the list of keys that name a member.
func (t *Table) nameMember(id memberID, change func([]string) []string) {
	var m observed
	if was, known := t.members.Get(id); known {
		m = *was
	}
	m.namedBy = change(m.namedBy)
	if m.seq == 0 && len(m.namedBy) == 0 {
		t.members = t.members.Without(t.edit, id)
		return
	}
	t.members = t.members.With(t.edit, id, &m)
}

func (t *Table) observe(seq uint64, id memberID, created age, shape *Rule, touched map[string]struct{}) {
	was, known := t.members.Get(id)
	if !known {
		was = &observed{}
	}
	if !id.usable() || seq <= was.seq {
		return
	}
	if shape != nil {
		shape.Observed = seq
	}
	t.members = t.members.With(t.edit, id, &observed{seq: seq, created: created, shape: shape, namedBy: was.namedBy})
	for _, routingKey := range was.namedBy {
		touched[routingKey] = struct{}{}
	}
}

func names(members []declaredMember, id memberID) bool {
	return slices.ContainsFunc(members, func(m declaredMember) bool { return m.id == id })
}

// with and without give changed copies of a sorted list: the old one belongs to
// an older table.

func with(sorted []string, s string) []string {
	i, found := slices.BinarySearch(sorted, s)
	if found {
		return sorted
	}
	out := make([]string, 0, len(sorted)+1)
	return append(append(append(out, sorted[:i]...), s), sorted[i:]...)
}

func without(sorted []string, s string) []string {
	i, found := slices.BinarySearch(sorted, s)
	if !found {
		return sorted
	}
	out := make([]string, 0, len(sorted)-1)
	return append(append(out, sorted[:i]...), sorted[i+1:]...)
}
