package published_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	routesv1 "switchyard.dev/protos/gen/routes"
	"switchyard.dev/routeserver/published"
	"switchyard.dev/routeserver/table"
)

// A watcher that applies the ops to the rules it had must have the rules that a
// fresh request gives, and may never be told anything that is not so.
func TestOpsTurnTheOldRulesIntoTheNew(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		older, filter := anyTable(t), anyFilter(t)
		newer := older.next(t)
		has := rulesByIdentity(filter, older.table)
		for _, op := range filter.Ops(older.table, newer.table) {
			follow(t, has, op)
		}
		if diff := cmp.Diff(rulesByIdentity(filter, newer.table), has, protocmp.Transform()); diff != "" {
			t.Fatalf("filter %+v (-want +got):\n%s", filter, diff)
		}
	})
}

// follow holds one op against what a careful client has, and applies it.
func follow(t *rapid.T, has map[string]*routesv1.WorkloadRoutingRule, op *routesv1.WorkloadRoutingRuleOp) {
	r := op.GetRoute()
	if r.GetBaseline() == nil || r.GetDestinationSandbox() == nil || r.GetRoutingKey() == "" {
		t.Fatalf("an incomplete op: %v", op)
	}
	id := identity(r)
	was, known := has[id]
	switch op.GetOp() {
	case routesv1.WatchOp_ADD:
		if known {
			t.Fatalf("ADD of a rule that is there: %v", op)
		}
		has[id] = r
	case routesv1.WatchOp_REPLACE:
		if !known || was.GetDestinationSandbox().GetName() != r.GetDestinationSandbox().GetName() || cmp.Equal(was, r, protocmp.Transform()) {
			t.Fatalf("REPLACE of %v with %v", was, r)
		}
		has[id] = r
	case routesv1.WatchOp_REMOVE:
		if !known || !cmp.Equal(was, r, protocmp.Transform()) {
			t.Fatalf("REMOVE of %v, but there was %v", r, was)
		}
		delete(has, id)
	default:
		t.Fatalf("op %v in a delta", op.GetOp())
	}
}

func identity(r *routesv1.WorkloadRoutingRule) string {
	b := r.GetBaseline()
	return fmt.Sprintf("%s/%s/%s %s", b.GetKind(), b.GetNamespace(), b.GetName(), r.GetRoutingKey())
}

func rulesByIdentity(f published.Filter, t table.Table) map[string]*routesv1.WorkloadRoutingRule {
	out := map[string]*routesv1.WorkloadRoutingRule{}
	for _, r := range f.Rules(t) {
		out[identity(published.Rule(r))] = published.Rule(r)
	}
	return out
}

func TestRulesAreThoseThatMatchEveryFilter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		of, f := anyTable(t), anyFilter(t)
		var want []*table.Rule
		for r := range of.table.All() {
			field := func(filter, value string) bool { return filter == "" || filter == value }
			if r.Member.Kind != "VirtualWorkload" && field(f.Kind, r.Baseline.Kind) && field(f.Namespace, r.Baseline.Namespace) && field(f.Name, r.Baseline.Name) &&
				field(f.RoutingKey, r.RoutingKey) && field(f.Sandbox, r.Sandbox) {
				want = append(want, r)
			}
		}
		if diff := cmp.Diff(want, f.Rules(of.table)); diff != "" {
			t.Fatalf("filter %+v (-want +got):\n%s", f, diff)
		}
	})
}

func TestAbsentAndEmptyFiltersMeanTheSame(t *testing.T) {
	for name, req := range map[string]*routesv1.WorkloadRoutingRulesRequest{
		"no request":     nil,
		"empty request":  {},
		"empty messages": {BaselineWorkload: &routesv1.BaselineWorkload{}, DestinationSandbox: &routesv1.DestinationSandbox{}},
	} {
		if got := published.FilterOf(req); got != (published.Filter{}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	got := published.FilterOf(&routesv1.WorkloadRoutingRulesRequest{
		BaselineWorkload: &routesv1.BaselineWorkload{Kind: "a", Namespace: "b", Name: "c"}, RoutingKey: "d",
		DestinationSandbox: &routesv1.DestinationSandbox{Name: "e"},
	})
	if want := (published.Filter{Kind: "a", Namespace: "b", Name: "c", RoutingKey: "d", Sandbox: "e"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestARuleOfAWorkloadWithoutAServiceIsARule(t *testing.T) {
	driver := &table.Place{Baseline: table.Workload{Kind: "Deployment", Namespace: "ns", Name: "driver"}}
	got := published.Rule(&table.Rule{Declaration: &table.Declaration{RoutingKey: "k"}, Serving: &table.Serving{Place: driver}, Sandbox: "sb"})
	want := &routesv1.WorkloadRoutingRule{
		RoutingKey: "k", Baseline: &routesv1.BaselineWorkload{Kind: "Deployment", Namespace: "ns", Name: "driver"},
		DestinationSandbox: &routesv1.DestinationSandbox{Name: "sb"},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// In this API a rule means that the baseline leaves what carries the key to somebody
// else. A consumer of messages at the baseline that saw one of a virtual workload would
// drop the messages, and nobody would process them.
func TestKeptRequestsAreNoRule(t *testing.T) {
	said := func(seq uint64, data proto.Message) event.Recorded {
		return event.Recorded{Pos: event.Pos{Epoch: "e", Seq: seq}, Fact: event.Fact{Data: data}}
	}
	naming := func(kind string) *factv1.RoutingDeclared {
		return &factv1.RoutingDeclared{RoutingKey: "k", Members: []*factv1.Member{{Kind: kind, Namespace: "ns", Name: "m", Sandbox: "sb"}}}
	}
	standing := func(kind string) *factv1.WorkloadObserved {
		return &factv1.WorkloadObserved{
			Workload: &factv1.ObjectRef{Kind: kind, Namespace: "ns", Name: "m"}, Ready: true,
			Baseline: &factv1.ObjectRef{Kind: "Deployment", Namespace: "ns", Name: "consumer"},
		}
	}
	forked := table.Table{}.Apply(said(1, naming("ForkedWorkload")), said(2, standing("ForkedWorkload")), said(3, standing("VirtualWorkload")))
	kept := forked.Apply(said(4, naming("VirtualWorkload")))
	consumer := table.Workload{Kind: "Deployment", Namespace: "ns", Name: "consumer"}
	if r, ok := kept.Lookup(consumer, "k"); !ok || !r.Kept() {
		t.Fatalf("the table has %v", r)
	}
	if got := (published.Filter{}).Rules(kept); len(got) != 0 {
		t.Errorf("it is told as %v", got)
	}
	if got := (published.Filter{Kind: "Deployment", Namespace: "ns", Name: "consumer", RoutingKey: "k"}).Rules(kept); len(got) != 0 {
		t.Errorf("to who asks for it alone it is told as %v", got)
	}
	for name, c := range map[string]struct {
		older, newer table.Table
		want         routesv1.WatchOp
	}{
		"a fork that becomes a virtual workload is no rule any more": {forked, kept, routesv1.WatchOp_REMOVE},
		"a virtual workload that becomes a fork is a new rule":       {kept, forked, routesv1.WatchOp_ADD},
	} {
		ops := published.Filter{}.Ops(c.older, c.newer)
		if len(ops) != 1 || ops[0].GetOp() != c.want || ops[0].GetRoute().GetRoutingKey() != "k" {
			t.Errorf("%s: %v", name, ops)
		}
	}
}

// The published rule has no address, so one that changes is none of its news.
func TestANewAddressIsNoOp(t *testing.T) {
	older, newer := atAddress("10.0.0.1"), atAddress("10.0.0.2")
	if changes := table.Diff(older, newer); len(changes) != 1 {
		t.Fatalf("%d changes of the table, want 1", len(changes))
	}
	if ops := (published.Filter{}).Ops(older, newer); len(ops) != 0 {
		t.Errorf("ops for a new address: %v", ops)
	}
}

func atAddress(ip string) table.Table {
	member := &factv1.ObjectRef{Kind: "ForkedWorkload", Namespace: "x", Name: "w"}
	return table.Table{}.Apply(
		event.Recorded{Pos: event.Pos{Epoch: "e", Seq: 1}, Fact: event.Fact{Data: &factv1.RoutingDeclared{
			RoutingKey: "k", Members: []*factv1.Member{{Kind: member.Kind, Namespace: member.Namespace, Name: member.Name, Sandbox: "sb"}},
		}}},
		event.Recorded{Pos: event.Pos{Epoch: "e", Seq: 2}, Fact: event.Fact{Data: &factv1.WorkloadObserved{
			Workload: member,
			Baseline: &factv1.ObjectRef{Kind: "Deployment", Namespace: "x", Name: "b"},
			Services: []*factv1.ServicePair{{To: "s", ClusterIp: ip, Ports: []*factv1.PortPair{{Port: 80, WorkloadPort: 8080}}}},
		}}},
	)
}

func anyFilter(t *rapid.T) published.Filter {
	pick := func(values ...string) string { return rapid.SampledFrom(append(values, "", "")).Draw(t, "filter") }
	return published.Filter{
		Kind: pick("Deployment", "ArgoRollout"), Namespace: pick("ns1", "ns2"), Name: pick("b1", "other"),
		RoutingKey: pick("k1", "k2", "unknown"), Sandbox: pick("sb1", "sb2"),
	}
}

// history is a table and the sequence of its last fact.
type history struct {
	table table.Table
	seq   uint64
}

func anyTable(t *rapid.T) history { return history{}.next(t) }

// next changes a few facts, each to one of few values.
func (h history) next(t *rapid.T) history {
	for range rapid.IntRange(0, 12).Draw(t, "facts") {
		h.seq++
		h.table = h.table.Apply(event.Recorded{Pos: event.Pos{Epoch: "e", Seq: h.seq}, Fact: anyFact(t)})
	}
	return h
}

func anyFact(t *rapid.T) event.Fact {
	pick := func(values ...string) string { return rapid.SampledFrom(values).Draw(t, "value") }
	kinds := []string{"ForkedWorkload", "VirtualWorkload"}
	member := pick("w1", "w2", "w3")
	if rapid.Bool().Draw(t, "declared") {
		d := &factv1.RoutingDeclared{RoutingKey: pick("k1", "k2")}
		for range rapid.IntRange(0, 2).Draw(t, "members") {
			d.Members = append(d.Members, &factv1.Member{Kind: pick(kinds...), Namespace: "x", Name: pick("w1", "w2", "w3"), Sandbox: pick("sb1", "sb2")})
		}
		return event.Fact{Data: d}
	}
	return event.Fact{Data: &factv1.WorkloadObserved{
		Workload: &factv1.ObjectRef{Kind: pick(kinds...), Namespace: "x", Name: member, Uid: pick("u1", "u2")},
		Baseline: &factv1.ObjectRef{Kind: pick("Deployment", "ArgoRollout"), Namespace: pick("ns1", "ns2"), Name: pick("b1", "b1", "b2")},
		Ready:    rapid.Bool().Draw(t, "ready"),
		Services: []*factv1.ServicePair{{To: pick("", "s"), ClusterIp: pick("10.0.0.1", "10.0.0.2"), Ports: []*factv1.PortPair{{Port: 80, WorkloadPort: 8080}}}},
	}}
}
