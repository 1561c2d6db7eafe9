package sandbox_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/routingkey"
	"switchyard.dev/reconcilers/sandbox"
)

func TestProblemsOfASpecNameTheFieldAndTheRemedy(t *testing.T) {
	x := workload("Deployment", "ns", "x")
	raw := func(s string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(s)} }
	patched := func(p crdv1.Patch) *crdv1.SignadotSandbox {
		return asks(target("Deployment", "ns", "a"), crdv1.TargetedPatch{Target: x, Patch: p})
	}
	externals := func(all ...crdv1.SandboxExternalWorkload) *crdv1.SignadotSandbox {
		return with(asks(), func(s *crdv1.SignadotSandboxSpec) { s.ExternalWorkloads = all })
	}
	virtuals := func(all ...crdv1.SandboxVirtualWorkload) *crdv1.SignadotSandbox {
		return with(asks(), func(s *crdv1.SignadotSandboxSpec) { s.VirtualWorkloads = all })
	}
	group := crdv1.SignadotRouteGroup{ObjectMeta: metav1.ObjectMeta{Name: "g", UID: "g", CreationTimestamp: metav1.NewTime(then.Add(-1))}}
	group.Spec.RoutingKey = "key"

	tests := []struct {
		name   string
		in     sandbox.Input
		reason string
		says   string
	}{
		{"there is no id", sandbox.Input{Sandbox: with(asks(), func(s *crdv1.SignadotSandboxSpec) { s.ID = "" })}, "InvalidSpec", "spec.id is empty"},
		{"no header can carry the id", sandbox.Input{Sandbox: with(asks(), func(s *crdv1.SignadotSandboxSpec) { s.ID = "a,b" })},
			"InvalidSpec", `spec.id "a,b" contains ",", which ends a value, so no header can carry it (baggage, tracestate, custom headers). Choose another key`},
		{"the id is the key of an older route group", sandbox.Input{Sandbox: asks(), Claims: []routingkey.Claim{routingkey.OfGroup(&group)}},
			"RoutingKeyTaken", "SignadotRouteGroup g"},
		{"the RoutingConfig of the key is somebody else's, who is named", sandbox.Input{Sandbox: asks(), KeyConfig: &crdv1.RoutingConfig{
			ObjectMeta: metav1.ObjectMeta{Name: "key", OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(&group, crdv1.GroupVersion().WithKind(crdv1.KindRouteGroup))}}}},
			"RoutingKeyTaken", "RoutingConfig key of SignadotRouteGroup g"},
		{"a patch has two forms", sandbox.Input{Sandbox: patched(crdv1.Patch{Merge: raw("{}"), JSON: []runtime.RawExtension{*raw("{}")}})},
			"InvalidPatch", "customization.patches[1] sets merge and json"},
		{"a patch has three forms", sandbox.Input{Sandbox: patched(crdv1.Patch{Merge: raw("{}"), Strategic: raw("{}"), JSON: []runtime.RawExtension{*raw("{}")}})},
			"InvalidPatch", "sets strategic and merge and json"},
		{"a target has no namespace", sandbox.Input{Sandbox: asks(target("Deployment", "", "a"))}, "InvalidSpec", "customization.patches[0].target has no namespace"},
		{"a target has no name", sandbox.Input{Sandbox: asks(target("Deployment", "ns", ""))}, "InvalidSpec", "customization.patches[0].target has no kind or no name"},
		{"a target is of a kind that cannot be forked", sandbox.Input{Sandbox: asks(target("CronJob", "ns", "a"))}, "UnsupportedKind", "customization.patches[0].target: CronJob a"},
		{"a target is where the operator may not work", sandbox.Input{Sandbox: asks(target("Deployment", "ns", "a")), Namespaces: []string{"other"}},
			"NamespaceNotAllowed", "add it to allowedNamespaces"},
		{"a target is the operator itself", sandbox.Input{Sandbox: asks(target("Deployment", "operator", "manager"))},
			"NamespaceNotAllowed", "belongs to the operator or to the cluster itself"},
		{"an external workload has no name", sandbox.Input{Sandbox: externals(external("", x))}, "InvalidSpec", "externalWorkloads[0] has no name"},
		{"an external workload's baseline has no namespace", sandbox.Input{Sandbox: externals(external("a", workload("Deployment", "", "x")))},
			"InvalidSpec", "externalWorkloads[0].baseline has no namespace"},
		{"an external workload's baseline is of a kind that no requests are led from", sandbox.Input{Sandbox: externals(external("a", workload("StatefulSet", "ns", "x")))},
			"UnsupportedKind", "externalWorkloads[0].baseline: StatefulSet x"},
		{"an external workload without baseline has no place where the operator may work", sandbox.Input{Sandbox: externals(crdv1.SandboxExternalWorkload{Name: "a"}), Namespaces: []string{"ns"}},
			"NamespaceNotAllowed", "externalWorkloads[0] is in namespace operator"},
		{"two members have one name", sandbox.Input{Sandbox: externals(external("a", x), crdv1.SandboxExternalWorkload{Name: "a"})},
			"InvalidSpec", `externalWorkloads[1].name is "a", as that of externalWorkloads[0]`},
		{"two members take one baseline, whatever the version of its API", sandbox.Input{Sandbox: externals(external("a", x),
			external("b", crdv1.ObjectRef{APIVersion: "apps/v1beta2", Kind: "Deployment", Namespace: "ns", Name: "x"}))},
			"InvalidSpec", "externalWorkloads[1] has Deployment ns/x as its baseline, which externalWorkloads[0] already has"},
		{"a virtual workload has no name", sandbox.Input{Sandbox: virtuals(crdv1.SandboxVirtualWorkload{Baseline: x})}, "InvalidSpec", "virtualWorkloads[0] has no name"},
		{"a virtual workload's baseline has no kind", sandbox.Input{Sandbox: virtuals(crdv1.SandboxVirtualWorkload{Name: "v", Baseline: crdv1.ObjectRef{Namespace: "ns", Name: "x"}})},
			"InvalidSpec", "virtualWorkloads[0].baseline has no kind"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.OperatorNamespace = "operator"
			_, after := decided(tt.in)
			for _, conditionType := range []string{crdv1.ConditionAccepted, crdv1.ConditionReady} {
				c := crdv1.FindCondition(after.Status.Conditions, conditionType)
				if c.Status != "False" || c.Reason != tt.reason || !strings.Contains(c.Message, tt.says) {
					t.Errorf("%+v", *c)
				}
			}
			fieldsOf(t, tt.in)
		})
	}
}

func TestConditionsNameTheOtherUsersOfAKey(t *testing.T) {
	var claims []routingkey.Claim
	for i, name := range []string{"a", "b", "c", "d"} {
		claims = append(claims, routingkey.Claim{Kind: crdv1.KindRouteGroup, Name: name, UID: types.UID(name), Created: metav1.NewTime(then.Add(time.Duration(i - 2)))})
	}
	own := asks()
	config := func(owner types.UID) *crdv1.RoutingConfig {
		return &crdv1.RoutingConfig{ObjectMeta: metav1.ObjectMeta{Name: "key", OwnerReferences: []metav1.OwnerReference{{UID: owner, Controller: new(true)}}}}
	}
	gone := config("gone")
	gone.OwnerReferences[0].Kind, gone.OwnerReferences[0].Name = crdv1.KindRouteGroup, "gone"
	for _, tt := range []struct {
		name, status, says string
		in                 sandbox.Input
	}{
		{"nobody else claims it", "True", "The spec is valid.", sandbox.Input{Sandbox: own, Claims: []routingkey.Claim{routingkey.OfSandbox(own)}, KeyConfig: config(own.UID)}},
		{"it has its key, and an older group that came later is named", "True", "Others waiting for this routing key: SignadotRouteGroup a.",
			sandbox.Input{Sandbox: own, Claims: claims[:1], KeyConfig: config(own.UID)}},
		{"of many the first are named", "True", "SignadotRouteGroup a, SignadotRouteGroup b, SignadotRouteGroup c, 1 more.",
			sandbox.Input{Sandbox: own, Claims: append(claims, routingkey.OfSandbox(own)), KeyConfig: config(own.UID)}},
		{"it has not, and the group that has is named, however old it is", "False", `Routing key "key" is held by SignadotRouteGroup d, which had it first: choose another spec.id`,
			sandbox.Input{Sandbox: own, Claims: claims, KeyConfig: config("d")}},
		{"nobody else claims it, and one that is gone has its RoutingConfig still", "False",
			`Routing key "key" is held by RoutingConfig key of SignadotRouteGroup gone, which SignadotSandbox sb did not make: choose another spec.id, or delete that object`,
			sandbox.Input{Sandbox: own, Claims: []routingkey.Claim{routingkey.OfSandbox(own)}, KeyConfig: gone}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.Sandbox = with(own, func(s *crdv1.SignadotSandboxSpec) {
				s.VirtualWorkloads = []crdv1.SandboxVirtualWorkload{{Name: "v", Baseline: workload("Deployment", "ns", "v")}}
			})
			f := sandbox.Decide(tt.in).Conditions[crdv1.ConditionAccepted]
			if string(f.Status) != tt.status || !strings.HasSuffix(f.Message, tt.says) {
				t.Errorf("%+v", f)
			}
		})
	}
}

func TestAForkWithABadPatchIsStillTheSandboxs(t *testing.T) {
	empty := &runtime.RawExtension{Raw: []byte("{}")}
	bad := crdv1.Patch{Merge: empty, Strategic: empty}
	s := asks(crdv1.TargetedPatch{Target: workload("Deployment", "ns", "a"), Patch: bad})
	if d := sandbox.Decide(sandbox.Input{Sandbox: s}); len(d.Members) != 1 {
		t.Errorf("%v: a fork that runs would be removed, and its requests go to the baseline", parts(d))
	}
}

// The published client sends a fork without customizations as a patch with a target
// alone.
func TestAForkWithoutAPatchIsAccepted(t *testing.T) {
	null := &runtime.RawExtension{Raw: []byte("null")}
	for name, p := range map[string]crdv1.Patch{
		"only a target":                {},
		"an empty list of operations":  {JSON: []runtime.RawExtension{}},
		"a form that is null":          {Merge: null},
		"a template without a content": {Template: true},
	} {
		t.Run(name, func(t *testing.T) {
			in := sandbox.Input{Sandbox: asks(crdv1.TargetedPatch{Target: workload("Deployment", "ns", "a"), Patch: p})}
			d, after := decided(in)
			if c := crdv1.FindCondition(after.Status.Conditions, crdv1.ConditionAccepted); c.Status != "True" {
				t.Errorf("%+v", *c)
			}
			if len(d.Members) != 1 {
				t.Fatalf("members: %v", parts(d))
			}
			fieldsOf(t, in)
		})
	}
}

func TestMembersSayWhatTheSpecSays(t *testing.T) {
	patch := func(s string, template bool) crdv1.Patch {
		return crdv1.Patch{Strategic: &runtime.RawExtension{Raw: []byte(s)}, Template: template}
	}
	fork, other := workload("Deployment", "ns", "a"), workload("Deployment", "ns", "b")
	tunnel := &crdv1.TunnelSpec{BaselineToLocals: []crdv1.TunnelPort{{BaselinePort: 80, LocalAddress: "localhost:8080", AppProtocol: "http"}}}
	s := with(asks(
		crdv1.TargetedPatch{Target: fork, Patch: patch(`{"spec":{"a":1}}`, false)},
		crdv1.TargetedPatch{Target: other, Patch: patch(`{"spec":{}}`, false)},
		crdv1.TargetedPatch{Target: fork, Patch: patch(`{"spec":{"b":2}}`, true)},
	), func(s *crdv1.SignadotSandboxSpec) {
		s.Customization.PreservedLabels = []string{"^team$", "zone"}
		s.ExternalWorkloads = []crdv1.SandboxExternalWorkload{{Name: "e", Baseline: &crdv1.ExternalBaseline{ObjectRef: workload("Deployment", "ns", "c")}, Tunnel: tunnel}}
		s.VirtualWorkloads = []crdv1.SandboxVirtualWorkload{{Name: "v", Baseline: workload("Deployment", "ns", "d")}}
	})
	in := sandbox.Input{Sandbox: s, OperatorNamespace: "operator"}
	fieldsOf(t, in)
	d := sandbox.Decide(in)
	var got []any
	for _, w := range d.Members {
		switch m := w.Object.(type) {
		case *crdv1.ForkedWorkload:
			got = append(got, m.Spec)
		case *crdv1.SignadotExternalWorkload:
			if m.Spec.WorkloadID == "" {
				t.Error("workloadID is empty, which the API server refuses")
			}
			m.Spec.WorkloadID = "x"
			got = append(got, m.Spec)
		case *crdv1.VirtualWorkload:
			got = append(got, m.Spec)
		}
	}
	want := []any{
		crdv1.ForkedWorkloadSpec{Baseline: fork, PreservedLabels: []string{"^team$", "zone"}, Patches: []crdv1.Patch{patch(`{"spec":{"a":1}}`, false), patch(`{"spec":{"b":2}}`, true)}},
		crdv1.ForkedWorkloadSpec{Baseline: other, PreservedLabels: []string{"^team$", "zone"}, Patches: []crdv1.Patch{patch(`{"spec":{}}`, false)}},
		crdv1.SignadotExternalWorkloadSpec{Name: "e", Baseline: s.Spec.ExternalWorkloads[0].Baseline, Tunnel: tunnel, RoutingKey: "key", WorkloadID: "x"},
		crdv1.VirtualWorkloadSpec{Name: "v", Baseline: workload("Deployment", "ns", "d")},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestMiddlewaresKeepTheirOrderAndFindTheirMembers(t *testing.T) {
	match := func(name string, w *crdv1.WorkloadRef) crdv1.MiddlewareMatch {
		return crdv1.MiddlewareMatch{Workload: w, Instance: crdv1.MiddlewareInstance{
			Middleware: name, Args: []crdv1.MiddlewareArg{{Name: "a", Value: "v", ValueFrom: &crdv1.MiddlewareArgSource{Forward: "f"}}},
		}}
	}
	ref := func(kind, namespace, name string) *crdv1.WorkloadRef {
		return &crdv1.WorkloadRef{Kind: kind, Namespace: namespace, Name: name}
	}
	in := sandbox.Input{OperatorNamespace: "operator", Sandbox: with(asks(target("Deployment", "ns", "a")), func(s *crdv1.SignadotSandboxSpec) {
		s.ExternalWorkloads = []crdv1.SandboxExternalWorkload{{Name: "e"}, external("f", workload("Deployment", "ns", "c"))}
		s.RequestMiddlewares = []crdv1.MiddlewareMatch{
			match("last", ref("Deployment", "ns", "a")), match("all", nil), match("elsewhere", ref("Deployment", "other", "a")),
			match("kind", ref("Rollout", "ns", "a")), match("first", ref("Deployment", "ns", "a")), match("out", ref("Deployment", "ns", "c")),
		}
	})}
	d, after := decided(in)
	var got [][]string
	for _, m := range d.Config.Spec.SandboxedWorkloads {
		var names []string
		for _, mw := range m.Middlewares {
			names = append(names, mw.Middleware)
			if len(mw.Args) != 1 || mw.Args[0].ValueFrom.Forward != "f" {
				t.Errorf("arguments: %v", mw.Args)
			}
		}
		got = append(got, names)
	}
	if diff := cmp.Diff([][]string{{"last", "all", "first"}, {"all"}, {"all", "out"}}, got); diff != "" {
		t.Error(diff)
	}
	c := crdv1.FindCondition(after.Status.Conditions, crdv1.ConditionAccepted)
	for _, says := range []string{"requestMiddlewares[2] names Deployment other/a", "requestMiddlewares[3] names Rollout ns/a"} {
		if !strings.Contains(c.Message, says) {
			t.Errorf("nobody is told that %s does nothing: %s", says, c.Message)
		}
	}
	fieldsOf(t, in)
}
