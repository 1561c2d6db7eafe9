package main

import (
	"maps"

	"google.golang.org/protobuf/proto"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/routeserver/table"
)

// naive is the table as one writes it first: the newest facts in Go maps, and a
// Go map of whole rules beside them. A new version is a copy of the map.
type naive struct {
	declared map[string]*factv1.RoutingDeclared
	observed map[string]*factv1.WorkloadObserved
	rules    map[identity]*naiveRule
}

type naiveRule struct {
	baseline            table.Workload
	routingKey, sandbox string
	mappings            []table.Mapping
	ready               bool
	member              table.Member
}

func naiveOf(facts []event.Recorded) *naive {
	n := &naive{map[string]*factv1.RoutingDeclared{}, map[string]*factv1.WorkloadObserved{}, map[identity]*naiveRule{}}
	for _, rec := range facts {
		n.take(rec.Fact.Data)
	}
	for _, d := range n.declared {
		for _, m := range d.GetMembers() {
			o := n.observed[m.GetNamespace()+"/"+m.GetName()]
			if o == nil && m.GetBaseline() != nil {
				o = &factv1.WorkloadObserved{
					Workload: &factv1.ObjectRef{Kind: m.GetKind(), Namespace: m.GetNamespace(), Name: m.GetName()},
					Baseline: m.GetBaseline(), Services: m.GetServices(),
				}
			}
			if o != nil {
				r := ruleOf(d.GetRoutingKey(), m.GetSandbox(), o)
				n.rules[identity{r.baseline, r.routingKey}] = r
			}
		}
	}
	return n
}

func (n *naive) take(data proto.Message) {
	switch d := data.(type) {
	case *factv1.RoutingDeclared:
		n.declared[d.GetRoutingKey()] = d
	case *factv1.WorkloadObserved:
		n.observed[d.GetWorkload().GetNamespace()+"/"+d.GetWorkload().GetName()] = d
	}
}

func ruleOf(key, sandbox string, o *factv1.WorkloadObserved) *naiveRule {
	b, w := o.GetBaseline(), o.GetWorkload()
	r := &naiveRule{
		baseline:   table.Workload{Kind: b.GetKind(), Namespace: b.GetNamespace(), Name: b.GetName()},
		routingKey: key, sandbox: sandbox, ready: o.GetReady(),
		member: table.Member{Kind: w.GetKind(), Namespace: w.GetNamespace(), Name: w.GetName(), UID: w.GetUid()},
	}
	for _, s := range o.GetServices() {
		for _, p := range s.GetPorts() {
			r.mappings = append(r.mappings, table.Mapping{WorkloadPort: p.GetWorkloadPort(), Destinations: []table.Destination{
				{Host: s.GetTo() + "." + b.GetNamespace() + ".svc", Port: p.GetPort(), Address: s.GetClusterIp()},
			}})
		}
	}
	return r
}

// changed returns the next version, with one member observed again.
func (n *naive) changed(key string, o *factv1.WorkloadObserved) *naive {
	next := &naive{n.declared, n.observed, maps.Clone(n.rules)}
	r := ruleOf(key, "", o)
	next.rules[identity{r.baseline, r.routingKey}] = r
	return next
}
