package table

import "switchyard.dev/routeserver/table/hamt"

// Lookup returns the rule for requests to a baseline that carry a routing key. It
// does not allocate.
func (t Table) Lookup(w Workload, routingKey string) (*Rule, bool) {
	if t.state == nil {
		return nil, false
	}
	baseline, key := wordsOf(w), hamt.WordsOf(routingKey)
	exact := baseline.exact() && key.Exact()
	slots, i := t.rules.Probe(ruleHash(baseline.hash(), key))
	for range slots {
		s := &slots[i]
		if s.key == key && s.place.words == baseline && (exact || s.Is(ruleID{w, routingKey})) {
			return s.rule, true
		}
		if s.rule == nil {
			return nil, false
		}
		if i++; i == len(slots) {
			i = 0
		}
	}
	return nil, false
}

// ruleID is what a rule is found by.
type ruleID struct {
	baseline   Workload
	routingKey string
}

// ruleHash is the hash of a rule's identity. The rules of one baseline lie near
// each other.
func ruleHash(baseline uint64, routingKey hamt.Words) uint64 {
	return hamt.Near(baseline, routingKey.Hash(baseline))
}

// slot is a rule in the map of all rules. The words of its routing key and the
// pointers lie in one line of the cache; and a place, which has those of the
// baseline, is used by many rules.
type slot struct {
	key   hamt.Words
	place *Place
	rule  *Rule
}

func slotOf(r *Rule) slot { return slot{hamt.WordsOf(r.RoutingKey), r.Place, r} }

// ID returns what the rule is found by.
func (s slot) ID() ruleID { return ruleID{s.place.Baseline, s.rule.RoutingKey} }

// Is reports whether that is so.
func (s slot) Is(id ruleID) bool { return s.ID() == id }

// Hash returns the hash of the identity.
func (s slot) Hash() uint64 { return ruleHash(s.place.hash, s.key) }

// same reports whether the rules of two slots are equal.
func (s slot) same(other slot) bool { return s.rule.Equal(other.rule) }
