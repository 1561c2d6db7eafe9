package routing_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/routeserver/table"
)

// standing returns a member of a kind, of sandbox, that replaces a Deployment.
func standing(kind, namespace, name, sandbox, base string, created int64) crdv1.Member {
	meta := metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(kind + namespace + name),
		CreationTimestamp: metav1.Unix(created, 0),
		Annotations:       map[string]string{crdv1.AnnotationSandboxName: sandbox},
	}
	ref := crdv1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: base}
	seen := &crdv1.WorkloadBaseline{WorkloadID: base}
	switch kind {
	case crdv1.KindForkedWorkload:
		return &crdv1.ForkedWorkload{ObjectMeta: meta, Spec: crdv1.ForkedWorkloadSpec{Baseline: ref}, Status: crdv1.ForkedWorkloadStatus{Baseline: seen}}
	case crdv1.KindVirtualWorkload:
		return &crdv1.VirtualWorkload{ObjectMeta: meta, Spec: crdv1.VirtualWorkloadSpec{Baseline: ref}, Status: crdv1.VirtualWorkloadStatus{Baseline: seen}}
	}
	return &crdv1.SignadotExternalWorkload{
		ObjectMeta: meta, Status: crdv1.SignadotExternalWorkloadStatus{Baseline: seen},
		Spec: crdv1.SignadotExternalWorkloadSpec{Baseline: &crdv1.ExternalBaseline{ObjectRef: ref}},
	}
}

// of is the Routing of a RoutingConfig that names these members, and not their sandboxes.
func of(members []crdv1.Member) routing.Routing {
	c := &crdv1.RoutingConfig{}
	for _, m := range members {
		if m != nil {
			c.Spec.SandboxedWorkloads = append(c.Spec.SandboxedWorkloads, crdv1.SandboxedWorkload{SandboxedWorkloadRef: routing.Ref(m, "")})
		}
	}
	return routing.Of(c, members, nil)
}

func TestConflicts(t *testing.T) {
	fork := func(name string, created int64) crdv1.Member {
		return standing(crdv1.KindForkedWorkload, "ns", name, "of-"+name, "base", created)
	}
	for _, tt := range []struct {
		name    string
		members []crdv1.Member
		want    []string // holder > loser
	}{
		{"two forks of one baseline, and the older holds it", []crdv1.Member{fork("a", 2), fork("b", 1)}, []string{"b > a"}},
		{"of two equally old ones the first by name holds it", []crdv1.Member{fork("b", 1), fork("a", 1)}, []string{"a > b"}},
		{"of three, two lose", []crdv1.Member{fork("a", 3), fork("b", 2), fork("c", 1)}, []string{"c > b", "c > a"}},
		{"a virtual workload holds a baseline like any other member", []crdv1.Member{
			fork("a", 2), standing(crdv1.KindVirtualWorkload, "ns", "v", "sb", "base", 1)}, []string{"v > a"}},
		{"so does an external one", []crdv1.Member{
			fork("a", 2), standing(crdv1.KindExternalWorkload, "ns", "x", "sb", "base", 1)}, []string{"x > a"}},
		{"another baseline is no matter", []crdv1.Member{fork("a", 1), standing(crdv1.KindForkedWorkload, "ns", "b", "sb", "other", 1)}, nil},
		{"nor is one of another namespace", []crdv1.Member{fork("a", 1), standing(crdv1.KindForkedWorkload, "ns2", "b", "sb", "base", 1)}, nil},
		{"one that is named twice is no rival of itself", []crdv1.Member{fork("a", 1), fork("a", 1)}, nil},
		{"one whose baseline was never seen is no rival", []crdv1.Member{fork("a", 1), func() crdv1.Member {
			m := fork("b", 0).(*crdv1.ForkedWorkload)
			m.Status.Baseline = nil
			return m
		}()}, nil},
		{"nor is a tunnel without baseline", []crdv1.Member{fork("a", 1), &crdv1.SignadotExternalWorkload{}}, nil},
		{"nor is none", []crdv1.Member{nil, fork("a", 1), nil}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, c := range of(tt.members).Conflicts() {
				got = append(got, c.Holder.Name+" > "+c.Loser.Name)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTheMessageOfAConflict(t *testing.T) {
	many := []crdv1.Member{}
	for i := range 6 {
		many = append(many, standing(crdv1.KindForkedWorkload, "ns", fmt.Sprint("f", i), fmt.Sprint("sb", i), "base", int64(i)))
	}
	f := of(many).NoConflicts()
	if !f.IsFalse() || f.Reason != "RoutingConflict" {
		t.Errorf("%+v", f)
	}
	for _, part := range []string{
		`ForkedWorkload ns/f0 of sandbox "sb0" and ForkedWorkload ns/f1 of sandbox "sb1" both represent Deployment ns/base.`,
		`Sandbox "sb0" gets the requests, since its member is older, or first by name where both are as old: take one of the two sandboxes away`, "And 2 more.",
	} {
		if !strings.Contains(f.Message, part) {
			t.Errorf("%q does not say %q", f.Message, part)
		}
	}
	if f := of(nil).NoConflicts(); !f.IsTrue() {
		t.Errorf("%+v", f)
	}
}

func TestConditionsAndTheTableNameTheSameLosers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var members []crdv1.Member
		declared := &factv1.RoutingDeclared{RoutingKey: "k"}
		seen := map[string]bool{}
		var facts []event.Recorded
		for range rapid.IntRange(0, 8).Draw(t, "members") {
			m := standing(
				rapid.SampledFrom(crdv1.Names(crdv1.MemberKinds())).Draw(t, "kind"),
				rapid.SampledFrom([]string{"n1", "n2"}).Draw(t, "namespace"),
				rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name"),
				rapid.SampledFrom([]string{"s1", "s2"}).Draw(t, "sandbox"),
				rapid.SampledFrom([]string{"x", "y"}).Draw(t, "baseline"),
				rapid.Int64Range(1, 3).Draw(t, "created"),
			)
			name := fmt.Sprint(member.NameOf(m))
			if seen[name] {
				continue
			}
			seen[name] = true
			members = append(members, m)
			declared.Members = append(declared.Members, &factv1.Member{
				Kind: m.MemberKind(), Namespace: m.GetNamespace(), Name: m.GetName(), Sandbox: m.GetAnnotations()[crdv1.AnnotationSandboxName],
			})
			fact, _ := member.Observed(m)
			facts = append(facts, event.Recorded{Pos: event.Pos{Epoch: "e", Seq: uint64(len(facts) + 1)}, Fact: event.Fact{Data: fact}})
		}
		facts = append(facts, event.Recorded{Pos: event.Pos{Epoch: "e", Seq: uint64(len(facts) + 1)}, Fact: event.Fact{Data: declared}})
		var want, got []string
		for _, c := range (table.Table{}).Apply(facts...).Conflicts() {
			want = append(want, fmt.Sprint(c.Baseline, c.Holder.Kind, c.Holder.Namespace, c.Holder.Name, c.HolderSandbox, c.Loser.Kind, c.Loser.Namespace, c.Loser.Name, c.LoserSandbox))
		}
		for _, c := range of(members).Conflicts() {
			w := table.Workload{Kind: c.Baseline.Kind, Namespace: c.Baseline.Namespace, Name: c.Baseline.Name}
			got = append(got, fmt.Sprint(w, c.Holder.Kind, c.Holder.Namespace, c.Holder.Name, c.Holder.SandboxName, c.Loser.Kind, c.Loser.Namespace, c.Loser.Name, c.Loser.SandboxName))
		}
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}
