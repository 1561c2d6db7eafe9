package table

import (
	"cmp"
	"slices"
	"strings"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/routeserver/table/hamt"
)

// Apply returns the table with these facts folded in. See the package comment for its guarantees;
// it reads neither Fact.Time nor anything outside the facts. One call with many facts costs less
// than one call for each.
func (t Table) Apply(recs ...event.Recorded) Table {
	f := folding{Table: t, older: t.filled(), edit: &hamt.Edit{}, touched: make(map[string]struct{})}
	made := *f.older.state
	f.state = &made
	for _, rec := range recs {
		f.fold(rec)
	}
	for routingKey := range f.touched {
		f.join(routingKey)
	}
	return f.Table
}

// folding is one Apply at work.
type folding struct {
	Table       // as far as it is made: its state is this Apply's own
	older Table // as it was
	edit  *hamt.Edit
	// touched are the routing keys with rules that may have changed.
	touched map[string]struct{}
}

// fold takes in one fact.
func (f *folding) fold(rec event.Recorded) {
	if rec.Pos.Epoch == "" || rec.Pos.Seq == 0 {
		return // not a place in any log
	}
	f.pos.Epoch = cmp.Or(f.pos.Epoch, rec.Pos.Epoch)
	if f.pos.Epoch != rec.Pos.Epoch {
		return
	}
	f.pos.Seq = max(f.pos.Seq, rec.Pos.Seq)
	switch data := rec.Fact.Data.(type) {
	case *factv1.RoutingDeclared:
		f.declare(rec.Pos.Seq, data.GetRoutingKey(), data.GetMembers())
	case *factv1.RoutingWithdrawn:
		f.declare(rec.Pos.Seq, data.GetRoutingKey(), nil)
	case *factv1.WorkloadObserved:
		f.observe(rec.Pos.Seq, data.GetWorkload(), data)
	case *factv1.WorkloadWithdrawn:
		f.observe(rec.Pos.Seq, data.GetWorkload(), nil)
	case *factv1.KeyHeadersDeclared:
		f.declareHeaders(rec.Pos.Seq, data)
	case *factv1.Complete:
		f.whole = f.whole || data != nil
	}
}

// declare takes in what a routing key names from now on.
func (f *folding) declare(seq uint64, routingKey string, members []*factv1.Member) {
	was, known := f.keys.Get(hamt.Text(routingKey))
	if !known {
		was = &Declaration{RoutingKey: strings.Clone(routingKey)}
	}
	if routingKey == "" || seq <= was.Declared {
		return
	}
	is := &Declaration{RoutingKey: was.RoutingKey, Declared: seq, members: f.named(members)}
	for _, m := range was.members {
		f.standIn(m.declared.place(), -1)
		if !is.names(m.memberID) {
			f.changeNames(m, without(f.member(m.memberID).namedBy, is.RoutingKey))
		}
	}
	for _, m := range is.members {
		if !was.names(m.memberID) {
			f.changeNames(m, with(f.member(m.memberID).namedBy, is.RoutingKey))
		}
	}
	f.keys = f.keys.With(f.edit, is)
	f.touched[is.RoutingKey] = struct{}{}
}

func (d *Declaration) names(id memberID) bool {
	return slices.ContainsFunc(d.members, func(m *named) bool { return m.memberID == id })
}

// changeNames replaces the list of the keys that name a member.
func (f *folding) changeNames(n *named, namedBy []string) {
	m := f.member(n.memberID)
	if m.seq == 0 && len(namedBy) == 0 {
		f.members = f.members.Without(f.edit, n.memberID)
		return
	}
	m.named, m.namedBy = n, namedBy
	f.members = f.members.With(f.edit, &m)
}

// observe records the observation of a member; nil when the member was deleted.
func (f *folding) observe(seq uint64, ref *factv1.ObjectRef, seen *factv1.WorkloadObserved) {
	id := memberIDOf(ref)
	m := f.member(id)
	if !id.usable() || seq <= m.seq {
		return
	}
	if m.named == nil {
		m.named = newNamed(id, "")
	}
	was := m.serving
	m.seq, m.serving = seq, f.servingOf(m.named, seq, seen)
	f.members = f.members.With(f.edit, &m)
	f.standIn(m.serving.place(), 1)
	f.standIn(was.place(), -1)
	for _, routingKey := range m.namedBy {
		f.touched[routingKey] = struct{}{}
	}
}

// standIn counts the members that represent a baseline, and the declarations that state it
// of one; place may be nil.
func (f *folding) standIn(place *Place, more int) {
	if place == nil {
		return
	}
	b := f.baseline(place)
	b.members += more
	f.setBaseline(&b)
}

// with and without return changed copies of a sorted list: the old one belongs to an older table.

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
