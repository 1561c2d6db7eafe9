package api

import (
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/table"
)

// positionOf says a place in the log; nil for the zero one.
func positionOf(p event.Pos) *routingv1.Position {
	if p == (event.Pos{}) {
		return nil
	}
	return &routingv1.Position{Epoch: p.Epoch, Sequence: p.Seq}
}

func workloadOf(w table.Workload) *routingv1.Workload {
	return &routingv1.Workload{Kind: w.Kind, Namespace: w.Namespace, Name: w.Name}
}

func tableWorkload(w *routingv1.Workload) table.Workload {
	return table.Workload{Kind: w.GetKind(), Namespace: w.GetNamespace(), Name: w.GetName()}
}

func memberOf(m table.Member) *routingv1.Member {
	return &routingv1.Member{Kind: m.Kind, Namespace: m.Namespace, Name: m.Name, Uid: m.UID}
}

// ruleOf says a rule; nil for nil.
func ruleOf(r *table.Rule) *routingv1.Rule {
	if r == nil {
		return nil
	}
	out := &routingv1.Rule{
		Baseline: workloadOf(r.Baseline), RoutingKey: r.RoutingKey, Sandbox: r.Sandbox,
		Member: memberOf(r.Member), Ready: r.Ready,
		DeclaredSequence: r.Declared, ObservedSequence: r.Observed, KeptAtBaseline: r.Kept(),
	}
	for _, m := range r.Mappings {
		mapping := &routingv1.Mapping{WorkloadPort: m.WorkloadPort}
		for _, d := range m.Destinations {
			mapping.Destinations = append(mapping.Destinations, &routingv1.Destination{Host: d.Host, Port: d.Port, Address: d.Address})
		}
		out.Mappings = append(out.Mappings, mapping)
	}
	return out
}

// changeOf says a decision that differs, without what made it so.
func changeOf(c table.Change) *routingv1.Change {
	return &routingv1.Change{
		Baseline: workloadOf(c.Baseline), RoutingKey: c.RoutingKey,
		Old: ruleOf(c.Old), New: ruleOf(c.New), WorkloadPorts: portsOf(c.Old, c.New),
	}
}

// portsOf returns the ports whose requests go elsewhere under the one rule than
// under the other, sorted: those with other destinations, or all when the rules
// differ in more than mappings (another sandbox, ready or not). Either rule may
// be nil.
func portsOf(was, is *table.Rule) []uint32 {
	mappings := func(r *table.Rule) map[uint32][]table.Destination {
		byPort := map[uint32][]table.Destination{}
		if r != nil {
			for _, m := range r.Mappings {
				byPort[m.WorkloadPort] = m.Destinations
			}
		}
		return byPort
	}
	before, after := mappings(was), mappings(is)
	all := was == nil || is == nil || was.Member != is.Member || was.Ready != is.Ready
	var ports []uint32
	for port, to := range before {
		if other, both := after[port]; all || !both || !slices.Equal(to, other) {
			ports = append(ports, port)
		}
	}
	for port := range after {
		if _, both := before[port]; !both {
			ports = append(ports, port)
		}
	}
	slices.Sort(ports)
	return ports
}

func conflictOf(c table.Conflict) *routingv1.Conflict {
	return &routingv1.Conflict{
		RoutingKey: c.RoutingKey, Baseline: workloadOf(c.Baseline),
		Holder: memberOf(c.Holder), HolderSandbox: c.HolderSandbox,
		Loser: memberOf(c.Loser), LoserSandbox: c.LoserSandbox,
	}
}

// eventOf says an event of the log. One of a kind that this version does not
// know has no statement.
func eventOf(r event.Recorded) *routingv1.Event {
	c := r.Fact.Cause
	out := &routingv1.Event{
		Position: positionOf(r.Pos), Key: string(r.Fact.Key), Statement: statementOf(r.Fact.Data),
		Cause: &routingv1.Cause{
			Kind: c.Kind, Namespace: c.Namespace, Name: c.Name, Uid: c.UID,
			Generation: c.Generation, Manager: c.Manager, Trace: c.Trace, Via: c.Via,
		},
	}
	if !r.Fact.Time.IsZero() {
		out.Stated = timestamppb.New(r.Fact.Time)
	}
	if !r.At.IsZero() {
		out.Recorded = timestamppb.New(r.At)
	}
	return out
}

// statementOf says the data of a fact; nil for data of no known kind.
func statementOf(data proto.Message) *routingv1.Statement {
	switch d := data.(type) {
	case *factv1.RoutingDeclared:
		return &routingv1.Statement{Says: &routingv1.Statement_RoutingDeclared{RoutingDeclared: d}}
	case *factv1.RoutingWithdrawn:
		return &routingv1.Statement{Says: &routingv1.Statement_RoutingWithdrawn{RoutingWithdrawn: d}}
	case *factv1.WorkloadObserved:
		return &routingv1.Statement{Says: &routingv1.Statement_WorkloadObserved{WorkloadObserved: d}}
	case *factv1.WorkloadWithdrawn:
		return &routingv1.Statement{Says: &routingv1.Statement_WorkloadWithdrawn{WorkloadWithdrawn: d}}
	case *factv1.Complete:
		return &routingv1.Statement{Says: &routingv1.Statement_Complete{Complete: d}}
	case *factv1.Floor:
		return &routingv1.Statement{Says: &routingv1.Statement_Floor{Floor: d}}
	case *factv1.KeyHeadersDeclared:
		return &routingv1.Statement{Says: &routingv1.Statement_KeyHeadersDeclared{KeyHeadersDeclared: d}}
	}
	return nil
}

// dataOf reads what statementOf wrote; nil when the statement says nothing.
func dataOf(s *routingv1.Statement) proto.Message {
	switch says := s.GetSays().(type) {
	case *routingv1.Statement_RoutingDeclared:
		return says.RoutingDeclared
	case *routingv1.Statement_RoutingWithdrawn:
		return says.RoutingWithdrawn
	case *routingv1.Statement_WorkloadObserved:
		return says.WorkloadObserved
	case *routingv1.Statement_WorkloadWithdrawn:
		return says.WorkloadWithdrawn
	case *routingv1.Statement_Complete:
		return says.Complete
	case *routingv1.Statement_Floor:
		return says.Floor
	case *routingv1.Statement_KeyHeadersDeclared:
		return says.KeyHeadersDeclared
	}
	return nil
}
