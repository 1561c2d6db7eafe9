package table

import "slices"

// Filter narrows rules. An empty field does not narrow; all others must match,
// byte for byte.
type Filter struct {
	Kind, Namespace, Name string
	RoutingKey, Sandbox   string
}

// One returns the baseline when the filter names exactly one.
func (f Filter) One() (Workload, bool) {
	w := Workload{f.Kind, f.Namespace, f.Name}
	return w, w.Kind != "" && w.Namespace != "" && w.Name != ""
}

// Baseline reports whether a workload passes.
func (f Filter) Baseline(w Workload) bool {
	return (f.Kind == "" || f.Kind == w.Kind) &&
		(f.Namespace == "" || f.Namespace == w.Namespace) &&
		(f.Name == "" || f.Name == w.Name)
}

// Rule reports whether a rule passes. No rule, nil, does not.
func (f Filter) Rule(r *Rule) bool {
	return r != nil && f.Baseline(r.Baseline) &&
		(f.RoutingKey == "" || f.RoutingKey == r.RoutingKey) &&
		(f.Sandbox == "" || f.Sandbox == r.Sandbox)
}

// Conflict reports whether a conflict passes: as the rule of the holder or as that of
// the loser.
func (f Filter) Conflict(c Conflict) bool {
	return f.Baseline(c.Baseline) && (f.RoutingKey == "" || f.RoutingKey == c.RoutingKey) &&
		(f.Sandbox == "" || slices.Contains([]string{c.HolderSandbox, c.LoserSandbox}, f.Sandbox))
}

// Diff returns the changes of the function Diff among the rules that pass: a rule that stops
// passing is removed, and one that begins to pass is new.
func (f Filter) Diff(older, newer Table) []Change {
	var all []Change
	if w, one := f.One(); one {
		all = DiffOf(older, newer, w)
	} else {
		all = Diff(older, newer)
	}
	passing := all[:0]
	for _, c := range all {
		if !f.Rule(c.Old) {
			c.Old = nil
		}
		if !f.Rule(c.New) {
			c.New = nil
		}
		if c.Old != nil || c.New != nil {
			passing = append(passing, c)
		}
	}
	return passing
}
