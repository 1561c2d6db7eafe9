package table

import (
	"cmp"
	"slices"
)

// claim is a member that would serve a baseline under some key.
type claim struct {
	sandbox string
	member  *observed
}

// compare puts claims of the same baseline together, the winner first.
func (c claim) compare(other claim) int {
	a, b := c.member.shape, other.member.shape
	return cmp.Or(
		a.Baseline.Compare(b.Baseline),
		c.member.created.compare(other.member.created),
		cmp.Compare(a.Member.Namespace, b.Member.Namespace),
		cmp.Compare(a.Member.Name, b.Member.Name),
		cmp.Compare(a.Member.Kind, b.Member.Kind),
	)
}

// join works out the rules of one routing key from what is known now, and puts
// them in the place of those it had.
func (t *Table) join(routingKey string) {
	key, _ := t.keys.Get(routingKey)
	var claims []claim
	for _, m := range key.members {
		if o, known := t.members.Get(m.id); known && o.shape != nil {
			claims = append(claims, claim{m.sandbox, o})
		}
	}
	slices.SortFunc(claims, claim.compare)

	var rules []*Rule
	var conflicts []Conflict
	for _, c := range claims {
		if last := len(rules) - 1; last >= 0 && rules[last].Baseline == c.member.shape.Baseline {
			conflicts = append(conflicts, conflict(rules[last], c))
			continue
		}
		rules = append(rules, t.ruleOf(routingKey, key.seq, c))
	}
	t.replaceRules(key.rules, rules)
	t.keys = t.keys.With(t.edit, routingKey, &declared{seq: key.seq, members: key.members, rules: rules})
	t.setConflicts(routingKey, conflicts)
}

// ruleOf gives the rule of a claim. The member's shape becomes the rule itself
// when it is no other key's yet.
func (t *Table) ruleOf(routingKey string, declared uint64, c claim) *Rule {
	shape := c.member.shape
	if shape.RoutingKey == routingKey && shape.Declared == declared {
		return shape
	}
	rule := *shape
	rule.RoutingKey, rule.Sandbox, rule.Declared = routingKey, c.sandbox, declared
	if shape.RoutingKey == "" || shape.RoutingKey == routingKey {
		member := *c.member
		member.shape = &rule
		t.members = t.members.With(t.edit, idOfMember(rule.Member), &member)
	}
	return &rule
}

func conflict(holder *Rule, loser claim) Conflict {
	return Conflict{
		RoutingKey: holder.RoutingKey, Baseline: holder.Baseline,
		Holder: holder.Member, HolderSandbox: holder.Sandbox,
		Loser: loser.member.shape.Member, LoserSandbox: loser.sandbox,
	}
}

func (t *Table) setConflicts(routingKey string, conflicts []Conflict) {
	if len(conflicts) == 0 {
		t.conflicts = t.conflicts.Without(t.edit, routingKey)
		return
	}
	slices.SortFunc(conflicts, compareConflicts)
	t.conflicts = t.conflicts.With(t.edit, routingKey, conflicts)
}

// replaceRules takes the old rules of a key out and puts the new ones in. Both
// are sorted by baseline, with one rule for each.
func (t *Table) replaceRules(older, newer []*Rule) {
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
		t.replaceRule(was, is)
	}
}

// replaceRule puts one rule in the place of another of the same identity.
// Either may be nil, but not both.
func (t *Table) replaceRule(was, is *Rule) {
	if was == is {
		return
	}
	baseline, routingKey := identity(was, is)
	var set ruleSet
	if old, ok := t.baselines.Get(baseline); ok {
		set = *old
	}
	before := set.byKey.Len()
	if is == nil {
		set.byKey = set.byKey.Without(t.edit, routingKey)
	} else {
		set.byKey = set.byKey.With(t.edit, routingKey, is)
	}
	t.rules += set.byKey.Len() - before
	if !was.Equal(is) {
		if was != nil {
			set.hash, t.hash = set.hash.minus(was), t.hash.minus(was)
		}
		if is != nil {
			set.hash, t.hash = set.hash.plus(is), t.hash.plus(is)
		}
	}
	if set.byKey.Len() == 0 {
		t.baselines = t.baselines.Without(t.edit, baseline)
		return
	}
	t.baselines = t.baselines.With(t.edit, baseline, &set)
}

func identity(was, is *Rule) (Workload, string) {
	if is != nil {
		return is.Baseline, is.RoutingKey
	}
	return was.Baseline, was.RoutingKey
}
