package published

import (
	"slices"

	routesv1 "switchyard.dev/protos/gen/routes"
	"switchyard.dev/routeserver/table"
)

// Filter is a table.Filter that also excludes rules that keep requests at the baseline.
type Filter table.Filter

// FilterOf returns the filter of a request. An absent message and an empty one mean the same.
func FilterOf(req *routesv1.WorkloadRoutingRulesRequest) Filter {
	b := req.GetBaselineWorkload()
	return Filter{
		Kind: b.GetKind(), Namespace: b.GetNamespace(), Name: b.GetName(),
		RoutingKey: req.GetRoutingKey(),
		Sandbox:    req.GetDestinationSandbox().GetName(),
	}
}

// Rules returns the rules that match, sorted by baseline and routing key.
func (f Filter) Rules(t table.Table) []*table.Rule {
	var out []*table.Rule
	add := func(r *table.Rule) {
		if diverted(r) && table.Filter(f).Rule(r) {
			out = append(out, r)
		}
	}
	w, one := table.Filter(f).One()
	switch {
	case one && f.RoutingKey != "":
		if r, ok := t.Lookup(w, f.RoutingKey); ok {
			add(r)
		}
	case one:
		for r := range t.Of(w) {
			add(r)
		}
	default:
		for r := range t.All() {
			add(r)
		}
	}
	return out
}

// Ops returns the ops that take a watcher from the matching rules of older to those of newer.
func (f Filter) Ops(older, newer table.Table) []*routesv1.WorkloadRoutingRuleOp {
	var out []*routesv1.WorkloadRoutingRuleOp
	for _, c := range table.Filter(f).Diff(older, newer) {
		was, is := diverted(c.Old), diverted(c.New)
		switch {
		case was && is && c.Old.Sandbox != c.New.Sandbox:
			out = append(out, op(routesv1.WatchOp_REMOVE, c.Old), op(routesv1.WatchOp_ADD, c.New))
		case was && is && !slices.EqualFunc(c.Old.Mappings, c.New.Mappings, readsTheSame):
			out = append(out, op(routesv1.WatchOp_REPLACE, c.New))
		case was && !is:
			out = append(out, op(routesv1.WatchOp_REMOVE, c.Old))
		case is && !was:
			out = append(out, op(routesv1.WatchOp_ADD, c.New))
		}
	}
	return out
}

// readsTheSame reports whether two mappings are the same in the published words,
// which leave out the address of a destination.
func readsTheSame(a, b table.Mapping) bool {
	return a.WorkloadPort == b.WorkloadPort && slices.EqualFunc(a.Destinations, b.Destinations, func(a, b table.Destination) bool {
		return a.Host == b.Host && a.Port == b.Port
	})
}

func op(o routesv1.WatchOp, r *table.Rule) *routesv1.WorkloadRoutingRuleOp {
	return &routesv1.WorkloadRoutingRuleOp{Op: o, Route: Rule(r)}
}

// diverted reports whether there is a rule that routes requests away from the baseline.
func diverted(r *table.Rule) bool { return r != nil && !r.Kept() }

// Rule returns a rule as a message. Baseline and destination sandbox are always
// set: clients read them without looking.
func Rule(r *table.Rule) *routesv1.WorkloadRoutingRule {
	out := &routesv1.WorkloadRoutingRule{
		RoutingKey: r.RoutingKey,
		Baseline: &routesv1.BaselineWorkload{
			Kind: r.Baseline.Kind, Namespace: r.Baseline.Namespace, Name: r.Baseline.Name,
		},
		DestinationSandbox: &routesv1.DestinationSandbox{Name: r.Sandbox},
	}
	for _, m := range r.Mappings {
		mapping := &routesv1.WorkloadPortMapping{WorkloadPort: m.WorkloadPort}
		for _, d := range m.Destinations {
			mapping.Destinations = append(mapping.Destinations, &routesv1.Location{Host: d.Host, Port: d.Port})
		}
		out.Mappings = append(out.Mappings, mapping)
	}
	return out
}
