package api

import (
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/table"
)

// filter narrows rules. An empty field does not narrow; all others must match,
// byte for byte.
type filter struct {
	kind, namespace, name string
	routingKey, sandbox   string
}

func filterOf(f *routingv1.Filter) filter {
	return filter{
		kind: f.GetKind(), namespace: f.GetNamespace(), name: f.GetName(),
		routingKey: f.GetRoutingKey(), sandbox: f.GetSandbox(),
	}
}

// baseline reports whether a workload passes.
func (f filter) baseline(w table.Workload) bool {
	return (f.kind == "" || f.kind == w.Kind) &&
		(f.namespace == "" || f.namespace == w.Namespace) &&
		(f.name == "" || f.name == w.Name)
}

// one returns the workload when the filter names exactly one.
func (f filter) one() (table.Workload, bool) {
	w := table.Workload{Kind: f.kind, Namespace: f.namespace, Name: f.name}
	return w, f.kind != "" && f.namespace != "" && f.name != ""
}

// rule reports whether a rule passes. No rule, nil, does not.
func (f filter) rule(r *table.Rule) bool {
	return r != nil && f.baseline(r.Baseline) &&
		(f.routingKey == "" || f.routingKey == r.RoutingKey) &&
		(f.sandbox == "" || f.sandbox == r.Sandbox)
}

// change narrows a change to the rules that pass: a rule that stops passing is
// gone for those who asked, and one that begins to pass is new. False when
// nothing is left.
func (f filter) change(c table.Change) (table.Change, bool) {
	if !f.rule(c.Old) {
		c.Old = nil
	}
	if !f.rule(c.New) {
		c.New = nil
	}
	return c, c.Old != nil || c.New != nil
}

// diff returns the changes between two tables that pass, sorted by baseline and
// routing key.
func (f filter) diff(older, newer table.Table) []table.Change {
	var all []table.Change
	if w, ok := f.one(); ok {
		all = table.DiffOf(older, newer, w)
	} else {
		all = table.Diff(older, newer)
	}
	passing := all[:0]
	for _, c := range all {
		if c, ok := f.change(c); ok {
			passing = append(passing, c)
		}
	}
	return passing
}
