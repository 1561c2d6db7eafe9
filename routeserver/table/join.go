package table

import (
	"cmp"
	"slices"

	"switchyard.dev/routeserver/table/hamt"
)

// claim is a member that would serve a baseline under some key.
type claim struct {
	named   *named
	serving *Serving
}

// compare puts claims of the same baseline together, the winner first.
func (c claim) compare(other claim) int {
	a, b := c.serving, other.serving
	return cmp.Or(a.Baseline.Compare(b.Baseline), a.claimant().Compare(b.claimant()))
}

// claimsOf returns the members of a key that are there, and absent ones if the key names
// their baselines, the winner of each baseline before those that lose it.
func (t *Table) claimsOf(key *Declaration) []claim {
	out := make([]claim, 0, len(key.members))
	for _, n := range key.members {
		s := t.member(n.memberID).serving
		if s == nil {
			s = n.absent()
		}
		if s != nil {
			out = append(out, claim{n, s})
		}
	}
	slices.SortFunc(out, claim.compare)
	return out
}

// join computes the rules of one routing key from the current facts, and replaces its previous
// rules.
func (f *folding) join(routingKey string) {
	key, _ := f.keys.Get(hamt.Text(routingKey))
	claims := f.claimsOf(key)
	rules := make([]*Rule, 0, len(claims))
	var conflicts []Conflict
	for _, c := range claims {
		if last := len(rules) - 1; last >= 0 && rules[last].Place == c.serving.Place {
			if !c.serving.Absent() {
				conflicts = append(conflicts, conflict(rules[last], c))
			}
			continue
		}
		rules = append(rules, &Rule{key, c.serving, c.named.sandbox})
	}
	f.replaceRules(f.older.rulesOf(routingKey), rules)
	f.setConflicts(routingKey, conflicts)
}

// rulesOf returns the rules of a routing key, sorted by baseline. There is no list of them: they
// are found through the baselines that its members represent.
func (t *Table) rulesOf(routingKey string) []*Rule {
	key, known := t.keys.Get(hamt.Text(routingKey))
	if !known {
		return nil
	}
	claims := t.claimsOf(key)
	out := make([]*Rule, 0, len(claims))
	for _, c := range claims {
		r, _ := t.Lookup(c.serving.Baseline, routingKey)
		if last := len(out) - 1; last < 0 || out[last] != r {
			out = append(out, r)
		}
	}
	return out
}

func conflict(holder *Rule, loser claim) Conflict {
	return Conflict{
		RoutingKey: holder.RoutingKey, Baseline: holder.Baseline,
		Holder: holder.Member, HolderSandbox: holder.Sandbox,
		Loser: loser.serving.Member, LoserSandbox: loser.named.sandbox,
	}
}

func (f *folding) setConflicts(routingKey string, conflicts []Conflict) {
	if len(conflicts) == 0 {
		f.conflicts = f.conflicts.Without(f.edit, hamt.Text(routingKey))
		return
	}
	slices.SortFunc(conflicts, compareConflicts)
	f.conflicts = f.conflicts.With(f.edit, &contested{routingKey, conflicts})
}

// replaceRules takes the old rules of a key out and puts the new ones in. Both
// are sorted by baseline, with one rule for each.
func (f *folding) replaceRules(older, newer []*Rule) {
	for len(older) > 0 || len(newer) > 0 {
		var order int
		switch {
		case len(newer) == 0:
			order = -1
		case len(older) == 0:
			order = 1
		default:
			order = older[0].Baseline.Compare(newer[0].Baseline)
		}
		var was, is *Rule
		if order <= 0 {
			was, older = older[0], older[1:]
		}
		if order >= 0 {
			is, newer = newer[0], newer[1:]
		}
		f.replaceRule(was, is)
	}
}

// replaceRule replaces a rule by another with the same identity. Either can be nil, but not both.
func (f *folding) replaceRule(was, is *Rule) {
	if was != nil && is != nil && *was == *is {
		return
	}
	either := cmp.Or(is, was)
	b := f.baseline(either.Place)
	before := f.rules.Len()
	if is == nil {
		gone := slotOf(was)
		f.rules = f.rules.Without(f.edit, gone.Hash(), gone.ID())
	} else {
		f.rules = f.rules.With(f.edit, slotOf(is))
	}
	b.rules += f.rules.Len() - before
	if !was.Equal(is) {
		if was != nil {
			content := contentHash(was)
			b.hash, f.hash = b.hash.minus(content), f.hash.minus(content)
		}
		if is != nil {
			content := contentHash(is)
			b.hash, f.hash = b.hash.plus(content), f.hash.plus(content)
		}
	}
	f.setBaseline(&b)
}
