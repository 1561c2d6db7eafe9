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
	rules int
	hash  Hash

	// What the log said: the newest fact of each of its keys.
	keys    hamt.Map[hamt.Text, *Declaration]
	members hamt.Map[memberID, *member]
	// What follows from it.
	baselines hamt.Map[Workload, *baseline]
	conflicts hamt.Map[hamt.Text, *contested]
}

// Pos is the newest position folded in; its epoch is the table's.
func (t Table) Pos() event.Pos { return t.pos }

// Whole tells whether the log said that it is complete: only then does the
// absence of a rule mean that there is none. Serve nothing from a table that is
// not whole.
func (t Table) Whole() bool { return t.whole }

// Hash is the hash of all rules. Two tables with the same rules have the same
// hash, whatever the log they came from.
func (t Table) Hash() Hash { return t.hash }

// HashOf is the hash of the rules of one baseline. It changes exactly when one
// of them changes.
func (t Table) HashOf(w Workload) Hash {
	if b, ok := t.baselines.Get(w); ok {
		return b.hash
	}
	return Hash{}
}

// Lookup gives the rule for requests to a baseline that carry a routing key. It
// does not allocate.
func (t Table) Lookup(w Workload, routingKey string) (*Rule, bool) {
	if b, ok := t.baselines.Get(w); ok {
		return b.byKey.Get(hamt.Text(routingKey))
	}
	return nil, false
}

// Len is the number of rules.
func (t Table) Len() int { return t.rules }
