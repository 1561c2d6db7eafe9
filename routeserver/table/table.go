package table

import (
	"switchyard.dev/eventbus/event"
	"switchyard.dev/routeserver/table/hamt"
)

// Table is one version of the routing table. The zero value is empty and cold.
// It is a value: copy it, keep it, read it from many goroutines.
type Table struct {
	pos   event.Pos
	whole bool
	hash  Hash

	*state // nil in the zero value
}

// state contains the facts of a table and the rules derived from them.
type state struct {
	// The newest fact of each key of the log.
	keys    hamt.Index[hamt.Text, *Declaration]
	members hamt.Index[memberID, *member]
	headers *keyHeaders // nil when nothing was declared
	// Derived from the facts.
	rules     hamt.Map[ruleID, slot]
	baselines hamt.Index[workloadID, *baseline]
	conflicts hamt.Index[hamt.Text, *contested]
}

// empty is the state of a table without facts.
var empty state

// filled returns the table with a state, if only an empty one.
func (t Table) filled() Table {
	if t.state == nil {
		t.state = &empty
	}
	return t
}

// Pos is the newest position folded in; its epoch is the table's.
func (t Table) Pos() event.Pos { return t.pos }

// Whole reports whether the log was marked complete: only then does the absence of a rule mean that
// there is none. Serve nothing from a table that is not whole.
func (t Table) Whole() bool { return t.whole }

// Hash is the hash of all rules and of the KeyHeaders. Two tables that route alike
// have the same hash, whatever the log they came from.
func (t Table) Hash() Hash { return t.hash }

// HashOf is the hash of the rules of one baseline. It changes exactly when one
// of them changes.
func (t Table) HashOf(w Workload) Hash {
	t = t.filled()
	b, known := t.baselines.Get(workloadID(w))
	if !known {
		return Hash{}
	}
	return b.hash
}

// Len is the number of rules.
func (t Table) Len() int {
	t = t.filled()
	return t.rules.Len()
}
