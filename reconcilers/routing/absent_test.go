package routing_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/testing/protocmp"

	"switchyard.dev/eventbus"
	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/routing"
)

// seen makes a ForkedWorkload with a Service of its baseline in its status.
func seen(name, base string) *crdv1.ForkedWorkload {
	m, _ := standing(crdv1.KindForkedWorkload, "ns", name, "sb", base, 1).(*crdv1.ForkedWorkload)
	m.Status.RoutingConfig = &crdv1.WorkloadRoutingInfo{Services: []crdv1.ServiceMapping{
		{From: base, To: name + "-" + base, Ports: []crdv1.MappedPort{{Port: 80, TargetPort: 8080}}},
		{From: "unmapped"},
	}}
	return m
}

// The annotation keeps the observed baselines of members, and the declaration has them while the
// members do not exist.
func TestObservedBaselinesOfMembersAreKept(t *testing.T) {
	stating := func(base, to string) *factv1.Member {
		return &factv1.Member{
			Kind: crdv1.KindForkedWorkload, Namespace: "ns", Name: "fork", Sandbox: "fork",
			Baseline: &factv1.ObjectRef{Kind: "Deployment", Namespace: "ns", Name: base},
			Services: []*factv1.ServicePair{{From: base, To: to, Ports: []*factv1.PortPair{{Port: 80, WorkloadPort: 8080}}}},
		}
	}
	nothing := &factv1.Member{Kind: crdv1.KindForkedWorkload, Namespace: "ns", Name: "fork", Sandbox: "fork"}
	unseen := func(base string) *crdv1.ForkedWorkload {
		m := seen("fork", base)
		m.Status = crdv1.ForkedWorkloadStatus{}
		return m
	}
	before := of([]crdv1.Member{seen("fork", "base")})
	note := before.Note()
	for _, tt := range []struct {
		name string
		note string
		have []crdv1.Member
		want *factv1.Member
	}{
		{"it is there", "", []crdv1.Member{seen("fork", "base")}, stating("base", "fork-base")},
		{"it is there and was noted otherwise", strings.ReplaceAll(note, "fork-base", "other"), []crdv1.Member{seen("fork", "base")}, stating("base", "fork-base")},
		{"it was deleted", note, nil, stating("base", "fork-base")},
		{"it is there again and was not observed yet", note, []crdv1.Member{unseen("base")}, stating("base", "fork-base")},
		{"it is there again and has another baseline", note, []crdv1.Member{unseen("other")}, nothing},
		{"nothing was noted", "", nil, nothing},
		{"the annotation is no JSON", "{", nil, nothing},
		{"the annotation has another form", `{"ForkedWorkload ns/fork":null}`, nil, nothing},
		{"a port that cannot be", strings.ReplaceAll(note, "8080", "-1"), nil, nothing},
		{"another was noted", strings.ReplaceAll(note, "ns/fork", "ns/other"), nil, nothing},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := before.Config.DeepCopy()
			c.Spec.SandboxedWorkloads[0].SandboxName = "fork"
			c.Annotations = map[string]string{routing.AnnotationMembers: tt.note}
			r := routing.Of(c, tt.have, nil)
			if diff := cmp.Diff(tt.want, r.Declaration().Members[0], protocmp.Transform()); diff != "" {
				t.Errorf("declared (-want +got):\n%s", diff)
			}
			if absent := r.Absent(c.Spec.SandboxedWorkloads[0]); absent != (tt.have == nil && tt.want != nothing) {
				t.Errorf("absent is %v", absent)
			}
			if tt.want != nothing && tt.note == note && r.Note() != note {
				t.Errorf("noted is %s, want %s", r.Note(), note)
			}
		})
	}
}

// Where nothing was noted of a member that does not exist, the specification of its sandbox counts; it
// is noted then. Noted and observed baselines go before it.
func TestASpecificationCountsWhereNothingWasNoted(t *testing.T) {
	before := of([]crdv1.Member{seen("fork", "base")})
	spec := map[member.Name]routing.Specified{{Kind: crdv1.KindForkedWorkload, Namespace: "ns", Name: "fork"}: {
		Baseline: crdv1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "ns", Name: "other"},
		Services: []crdv1.ServiceMapping{{From: "other", To: "fork-other", Ports: []crdv1.MappedPort{{Port: 80, TargetPort: 8080}}}, {From: "unmapped"}},
	}}
	for _, tt := range []struct {
		name, note string
		have       []crdv1.Member
		want       string
	}{
		{"nothing was noted", "", nil, "other"},
		{"it was noted", before.Note(), nil, "base"},
		{"it is there", "", []crdv1.Member{seen("fork", "base")}, "base"},
	} {
		c := before.Config.DeepCopy()
		c.Annotations = map[string]string{routing.AnnotationMembers: tt.note}
		r := routing.Of(c, tt.have, nil)
		if unknown := len(r.Unknown()); (unknown == 1) != (tt.want == "other") {
			t.Errorf("%s: %d unknown", tt.name, unknown)
		}
		r.Specified = spec
		got := r.Declaration().Members[0]
		if got.Baseline.GetName() != tt.want || len(got.Services) != 1 || !strings.Contains(r.Note(), `"name":"`+tt.want+`"`) || len(r.Unknown()) > 0 {
			t.Errorf("%s: declared %v, noted %s", tt.name, got, r.Note())
		}
	}
}

// The requests of a virtual workload stay at the baseline, and a tunnel out of
// the cluster has none.
func TestNothingIsToldOfMembersThatTakeNoRequests(t *testing.T) {
	out := &crdv1.SignadotExternalWorkload{}
	out.Namespace, out.Name = "ns", "out"
	virtual, _ := standing(crdv1.KindVirtualWorkload, "ns", "virtual", "sb", "base", 1).(*crdv1.VirtualWorkload)
	virtual.Status.RoutingConfig = &crdv1.WorkloadRoutingInfo{}
	r := of([]crdv1.Member{virtual, out})
	if note := r.Note(); note != "" {
		t.Errorf("noted is %s", note)
	}
	for _, m := range r.Declaration().Members {
		if m.Baseline != nil {
			t.Errorf("the declaration has %v", m)
		}
	}
}

// A declaration of many members fits into an event, with the baselines of deleted members first.
func TestADeclarationThatTellsOfManyMembersFits(t *testing.T) {
	var all []crdv1.Member
	for i := range 480 {
		all = append(all, seen(fmt.Sprintf("fork-%d", i), "base"))
	}
	r := of(all)
	c := r.Config.DeepCopy()
	c.Annotations = map[string]string{routing.AnnotationMembers: r.Note()}
	r = routing.Of(c, all[:479], nil)
	if n := len(c.Annotations[routing.AnnotationMembers]); n > 64<<10 {
		t.Errorf("%d bytes are noted", n)
	}
	c.Annotations[routing.AnnotationMembers] = routing.Of(c, all[479:], nil).Note()
	d := r.Declaration()
	text, err := protojson.Marshal(d)
	if err != nil || len(text) > eventbus.MaxEvent-2<<10 {
		t.Errorf("the declaration takes %d bytes: %v", len(text), err)
	}
	if d.Members[0].Baseline == nil || d.Members[478].Baseline != nil || d.Members[479].Baseline == nil {
		t.Errorf("the baseline of the first is %v, of the last that exists %v, of the deleted one %v", d.Members[0].Baseline, d.Members[478].Baseline, d.Members[479].Baseline)
	}
}

// Baselines in declarations of members that exist change nothing for proxies, so an upgrade does
// not reset acknowledgements: this is the digest of the release before.
func TestBaselinesOfMembersNeedNoAcknowledgement(t *testing.T) {
	if got := of([]crdv1.Member{seen("fork", "base")}).ToAcknowledge(); got != "276d6e08400972964f02129f" {
		t.Errorf("the digest is %s", got)
	}
}
