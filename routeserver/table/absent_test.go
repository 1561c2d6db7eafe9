package table

import (
	"testing"

	"google.golang.org/protobuf/proto"

	factv1 "switchyard.dev/protos/gen/fact/v1"
)

// telling returns a declaration that states which baseline its members represent, through
// Service web, for which the Service of each member's name stands.
func telling(routingKey, baseline string, members ...string) *factv1.RoutingDeclared {
	d := declare(routingKey, members...)
	for _, m := range d.Members {
		m.Baseline = &factv1.ObjectRef{Kind: "Deployment", Namespace: "ns", Name: baseline}
		m.Services = []*factv1.ServicePair{{From: "web", To: m.Name, ClusterIp: "10.0.0.9", Ports: []*factv1.PortPair{{Port: 80, WorkloadPort: 8080}}}}
	}
	return d
}

// folded returns the table of these facts.
func folded(facts ...proto.Message) Table {
	var t Table
	for i, f := range facts {
		t = t.Apply(rec("e", uint64(i+1), f))
	}
	return t
}

// A key that is declared for a member that does not exist keeps its baseline: its
// requests fail, and reach the baseline only once the declaration goes.
func TestADeclaredMemberThatDoesNotExistIsNotReady(t *testing.T) {
	b := Workload{"Deployment", "ns", "b"}
	seen := observe("m", "b")
	seen.Services = telling("k", "b", "m").Members[0].Services
	gone := &factv1.WorkloadWithdrawn{Workload: seen.Workload}
	for _, tt := range []struct {
		name  string
		facts []proto.Message
	}{
		{"never observed", []proto.Message{telling("k", "b", "m")}},
		{"withdrawn", []proto.Message{seen, telling("k", "b", "m"), gone}},
		{"withdrawn before it is declared", []proto.Message{seen, gone, telling("k", "b", "m")}},
		{"declared before without the baseline", []proto.Message{declare("k", "m"), telling("k", "b", "m")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := folded(tt.facts...)
			r, ok := got.Lookup(b, "k")
			if !ok || r.Ready || !r.Absent() || r.Sandbox == "" || r.Member.UID != "" {
				t.Fatalf("the rule is %v, %v", r, ok)
			}
			want := Destination{Host: "m.ns.svc", Port: 80, Service: "web"}
			if len(r.Mappings) != 1 || r.Mappings[0].WorkloadPort != 8080 || r.Mappings[0].Destinations[0] != want {
				t.Errorf("its mappings are %v", r.Mappings)
			}
			got = got.Apply(rec("e", 100, &factv1.RoutingWithdrawn{RoutingKey: "k"}))
			if got.Len() != 0 || got.HashOf(b) != (Hash{}) {
				t.Errorf("after the withdrawal there is %v", got)
			}
			if n := got.baselines.Len(); n != 0 {
				t.Errorf("%d baselines are left", n)
			}
		})
	}
}

// A member that is there holds the baseline before one that is not, however old that was,
// and there is no conflict: nothing of the other would be served if it went.
func TestAMemberThatIsThereGoesBeforeOneThatIsNot(t *testing.T) {
	facts := []proto.Message{telling("k", "b", "a", "z"), observe("z", "b")}
	got := folded(facts...)
	if r, _ := got.Lookup(Workload{"Deployment", "ns", "b"}, "k"); r.Member.Name != "z" || len(got.Conflicts()) != 0 {
		t.Errorf("the rule is %v, conflicts %v", r, got.Conflicts())
	}
	got = got.Apply(rec("e", 100, &factv1.WorkloadWithdrawn{Workload: observe("z", "b").Workload}))
	if r, _ := got.Lookup(Workload{"Deployment", "ns", "b"}, "k"); r.Member.Name != "a" || !r.Absent() || len(got.Conflicts()) != 0 {
		t.Errorf("when neither exists the rule is %v, conflicts %v", r, got.Conflicts())
	}
}

// The requests of a virtual workload stay at the baseline, also when it does not exist.
func TestAVirtualWorkloadThatDoesNotExistHoldsNothing(t *testing.T) {
	d := telling("k", "b", "m")
	d.Members[0].Kind = keptKind
	if got := folded(d); got.Len() != 0 {
		t.Errorf("there are rules: %v", got)
	}
}

// A declaration shares the memory of an observed member.
func TestADeclarationSharesTheObservationOfItsMember(t *testing.T) {
	seen := observe("m", "b")
	seen.Services = telling("k", "b", "m").Members[0].Services
	got := folded(seen, telling("k", "b", "m"), telling("group", "b", "m"))
	k, _ := got.keys.Get("k")
	group, _ := got.keys.Get("group")
	m := got.member(memberIDOf(seen.Workload))
	if k.members[0] != group.members[0] || k.members[0].declared != m.serving {
		t.Errorf("the declarations have %p and %p, the member %p", k.members[0].declared, group.members[0].declared, m.serving)
	}
}
