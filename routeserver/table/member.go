package table

import (
	"strings"
	"unique"

	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/routeserver/table/hamt"
)

// memberID names a sandboxed workload. There are few kinds, so their texts are shared.
type memberID struct {
	kind            unique.Handle[string]
	namespace, name string
}

func memberIDOf(o Named) memberID {
	return memberID{unique.Make(o.GetKind()), o.GetNamespace(), o.GetName()}
}

func (id memberID) usable() bool { return id.kind.Value() != "" && id.namespace != "" && id.name != "" }

// Hash makes it an identity.
func (id memberID) Hash() uint64 { return hamt.HashOf(id.kind.Value(), id.namespace, id.name) }

// named is a member as a routing key names it: the workload, the sandbox that it is part
// of, and the baseline that it represents while it is not there. Keys with equal
// statements share one.
type named struct {
	memberID
	sandbox string
	// declared is nil where the key names no baseline.
	declared *Serving
}

// member is the known state of a sandboxed workload: that a key names it, that it was observed, or
// both.
type member struct {
	named *named
	// seq is that of the newest fact about it, 0 when there was none.
	seq uint64
	// serving is nil when the member does not exist or represents no baseline.
	serving *Serving
	// namedBy are the routing keys that name it, sorted.
	namedBy []string
}

// ID makes it findable.
func (m *member) ID() memberID { return m.named.memberID }

// member returns the known state of a workload; the zero value if there is none.
func (t *Table) member(id memberID) member {
	if m, known := t.members.Get(id); known {
		return *m
	}
	return member{}
}

// named returns the members that a declaration names, each once.
func (f *folding) named(said []*factv1.Member) []*named {
	out := Declaration{members: make([]*named, 0, len(said))}
	for _, s := range said {
		id := memberIDOf(s)
		if !id.usable() || out.names(id) {
			continue
		}
		m := f.member(id)
		declared := f.declared(m, s)
		n := m.named
		switch {
		case n == nil:
			n = newNamed(id, s.GetSandbox())
			n.declared = declared
		case n.sandbox != s.GetSandbox():
			n = &named{n.memberID, strings.Clone(s.GetSandbox()), declared}
		case n.declared != declared:
			n = &named{n.memberID, n.sandbox, declared}
		}
		out.members = append(out.members, n)
	}
	return out.members
}

func newNamed(id memberID, sandbox string) *named {
	n := &named{memberID: id, sandbox: sandbox}
	pack(&n.namespace, &n.name, &n.sandbox)
	return n
}

// pack replaces strings by copies in one allocation. So a table keeps no fact alive, and needs one
// allocation instead of many.
func pack(texts ...*string) {
	size := 0
	for _, s := range texts {
		size += len(*s)
	}
	var all strings.Builder
	all.Grow(size)
	for _, s := range texts {
		all.WriteString(*s)
	}
	rest := all.String()
	for _, s := range texts {
		*s, rest = rest[:len(*s)], rest[len(*s):]
	}
}
