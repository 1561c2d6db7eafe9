package sandbox_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/routingkey"
	"switchyard.dev/reconcilers/sandbox"
	"switchyard.dev/tests/fields"
)

// workload names a workload.
func workload(kind, namespace, name string) crdv1.ObjectRef {
	apiVersion := map[string]string{"Rollout": "argoproj.io/v1alpha1"}[kind]
	if apiVersion == "" {
		apiVersion = "apps/v1"
	}
	return crdv1.ObjectRef{APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name}
}

// target is a patch that names a workload.
func target(kind, namespace, name string) crdv1.TargetedPatch {
	return crdv1.TargetedPatch{
		Target: workload(kind, namespace, name),
		Patch:  crdv1.Patch{Merge: &runtime.RawExtension{Raw: []byte(`{"spec":{"replicas":1}}`)}},
	}
}

// external is a member outside the cluster that takes a workload's requests.
func external(name string, baseline crdv1.ObjectRef) crdv1.SandboxExternalWorkload {
	return crdv1.SandboxExternalWorkload{Name: name, Baseline: &crdv1.ExternalBaseline{ObjectRef: baseline}}
}

// asks makes a sandbox with these patches.
func asks(patches ...crdv1.TargetedPatch) *crdv1.SignadotSandbox {
	return &crdv1.SignadotSandbox{
		ObjectMeta: metav1.ObjectMeta{Name: "sb", UID: "sb-uid", Generation: 1, CreationTimestamp: then},
		Spec:       crdv1.SignadotSandboxSpec{ID: "key", Name: "shown", Customization: &crdv1.SandboxCustomization{Patches: patches}},
	}
}

// with changes the spec of a sandbox.
func with(s *crdv1.SignadotSandbox, change func(*crdv1.SignadotSandboxSpec)) *crdv1.SignadotSandbox {
	s = s.DeepCopy()
	change(&s.Spec)
	return s
}

// mine is the owner reference of what the sandbox made.
func mine() []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(asks(), crdv1.GroupVersion().WithKind(crdv1.KindSandbox))}
}

// parts names the parts of a decision.
func parts(d sandbox.Decision) (out []string) {
	for _, w := range d.Members {
		ref, _ := w.Object.BaselineRef()
		waits := ""
		if w.WaitsFor != "" {
			waits = " waits for " + w.WaitsFor
		}
		if w.Keep {
			waits += ", and stays as it is"
		}
		out = append(out, fmt.Sprintf("%s in %s for %s%s", w.Object.MemberKind(), w.Object.GetNamespace(), ref.Name, waits))
	}
	if d.Config != nil {
		out = append(out, fmt.Sprintf("config %s of %d", d.Config.Name, len(d.Config.Spec.SandboxedWorkloads)))
	}
	for _, m := range d.SurplusMembers {
		out = append(out, "not "+m.MemberKind()+" "+m.GetName())
	}
	for _, c := range d.SurplusConfigs {
		out = append(out, "not config "+c.Name)
	}
	for _, r := range d.SurplusResources {
		out = append(out, "not resource "+r.Name)
	}
	return out
}

// decided returns what is decided about a sandbox in the world of an input, when
// everything can be written.
func decided(in sandbox.Input) (sandbox.Decision, *crdv1.SignadotSandbox) {
	in = provided(in)
	d := sandbox.Decide(in)
	return d, sandbox.Conclude(in, d, acted(in, d), then)
}

// fieldsOf notes which fields of a sandbox count in a row.
func fieldsOf(t *testing.T, in sandbox.Input) {
	t.Helper()
	fields.Row(t, crdv1.KindSandbox, in.Sandbox, func(s *crdv1.SignadotSandbox) (any, client.Object) {
		in := in
		in.Sandbox = s
		d, after := decided(in)
		return []any{d, provided(in).Resources}, after
	})
}

func TestPartsOfASandbox(t *testing.T) {
	old := crdv1.RoutingConfig{ObjectMeta: metav1.ObjectMeta{Name: "old-key", OwnerReferences: mine()}}
	stale := &crdv1.ForkedWorkload{ObjectMeta: metav1.ObjectMeta{Name: "stale", Namespace: "ns", OwnerReferences: mine()}}
	gone := &crdv1.Resource{ObjectMeta: metav1.ObjectMeta{Name: "gone", OwnerReferences: mine()}}
	older := *asks()
	older.Name, older.UID, older.CreationTimestamp = "older", "older-uid", metav1.NewTime(then.Add(-1))
	x, y := workload("Deployment", "ns", "x"), workload("Deployment", "ns", "y")

	tests := []struct {
		name string
		in   sandbox.Input
		want []string
	}{
		{"one fork for each workload, in the order of the first patch for it", sandbox.Input{Sandbox: asks(
			target("Deployment", "ns", "b"), target("Deployment", "ns", "a"), target("Deployment", "ns", "b"), target("Deployment", "n2", "b"),
		)}, []string{"ForkedWorkload in ns for b", "ForkedWorkload in ns for a", "ForkedWorkload in n2 for b", "config key of 3"}},
		{"what cannot be forked is left out", sandbox.Input{Sandbox: asks(
			target("StatefulSet", "ns", "a"), target("Deployment", "", "a"), target("Deployment", "ns", ""), target("Deployment", "ns", "good"),
		)}, []string{"ForkedWorkload in ns for good", "config key of 1"}},
		{"where the operator may not work there is no member", sandbox.Input{
			Sandbox: with(asks(target("Deployment", "ns", "a"), target("Deployment", "ok", "a")), func(s *crdv1.SignadotSandboxSpec) {
				s.ExternalWorkloads = []crdv1.SandboxExternalWorkload{{Name: "tunnel"}, external("e", x)}
				s.VirtualWorkloads = []crdv1.SandboxVirtualWorkload{{Name: "v", Baseline: y}}
			}), Namespaces: []string{"ok"},
		}, []string{"ForkedWorkload in ok for a", "config key of 1"}},
		{"an external workload is beside its baseline, or where the operator is", sandbox.Input{
			Sandbox: with(asks(), func(s *crdv1.SignadotSandboxSpec) {
				s.ExternalWorkloads = []crdv1.SandboxExternalWorkload{external("a", x), {Name: "b"}, {
					Name: "c", Baseline: &crdv1.ExternalBaseline{Fake: true, ObjectRef: crdv1.ObjectRef{Kind: "Any", Namespace: "there", Name: "any"}},
				}}
			}),
		}, []string{
			"SignadotExternalWorkload in ns for x", "SignadotExternalWorkload in operator for ", "SignadotExternalWorkload in there for ", "config key of 3",
		}},
		{"a virtual workload is beside its baseline", sandbox.Input{
			Sandbox: with(asks(target("Deployment", "ns", "y")), func(s *crdv1.SignadotSandboxSpec) {
				s.VirtualWorkloads = []crdv1.SandboxVirtualWorkload{{Name: "a", Baseline: x}}
			}),
		}, []string{"ForkedWorkload in ns for y", "VirtualWorkload in ns for x", "config key of 2"}},
		{"a baseline is taken once, by the member that comes first", sandbox.Input{
			Sandbox: with(asks(target("Deployment", "ns", "x")), func(s *crdv1.SignadotSandboxSpec) {
				s.ExternalWorkloads = []crdv1.SandboxExternalWorkload{external("a", x), external("b", y), external("c", y)}
				s.VirtualWorkloads = []crdv1.SandboxVirtualWorkload{{Name: "d", Baseline: x}, {Name: "e", Baseline: y}}
			}),
		}, []string{"ForkedWorkload in ns for x", "SignadotExternalWorkload in ns for y", "config key of 2"}},
		{"a name is given once, over all kinds of members", sandbox.Input{
			Sandbox: with(asks(), func(s *crdv1.SignadotSandboxSpec) {
				s.ExternalWorkloads = []crdv1.SandboxExternalWorkload{{Name: "a"}, {Name: "a"}, {Name: ""}}
				s.VirtualWorkloads = []crdv1.SandboxVirtualWorkload{{Name: "a", Baseline: x}, {Name: "", Baseline: y}}
			}),
		}, []string{"SignadotExternalWorkload in operator for ", "config key of 1"}},
		{"what is not wanted any more goes", sandbox.Input{
			Sandbox: asks(), Members: []crdv1.Member{stale}, Configs: []crdv1.RoutingConfig{old},
		}, []string{"config key of 0", "not ForkedWorkload stale", "not config old-key"}},
		{"without its key a sandbox has no parts, and keeps its Resources", sandbox.Input{
			Sandbox: asks(target("Deployment", "ns", "a")), Claims: []routingkey.Claim{routingkey.OfSandbox(&older)},
			Members: []crdv1.Member{stale}, Configs: []crdv1.RoutingConfig{old}, Resources: []*crdv1.Resource{gone},
		}, []string{"not ForkedWorkload stale", "not config old-key"}},
		{"who is older and comes to a key later does not take it", sandbox.Input{
			Sandbox: asks(target("Deployment", "ns", "a")), Claims: []routingkey.Claim{routingkey.OfSandbox(&older)},
			KeyConfig: &crdv1.RoutingConfig{ObjectMeta: metav1.ObjectMeta{Name: "key", OwnerReferences: mine()}},
		}, []string{"ForkedWorkload in ns for a", "config key of 1"}},
		{"a key that somebody declared by hand is not taken away", sandbox.Input{
			Sandbox: asks(target("Deployment", "ns", "a")), KeyConfig: &crdv1.RoutingConfig{ObjectMeta: metav1.ObjectMeta{Name: "key"}},
		}, nil},
		{"what a former life of the sandbox made is not its own", sandbox.Input{
			Sandbox: asks(target("Deployment", "ns", "a")),
			KeyConfig: &crdv1.RoutingConfig{ObjectMeta: metav1.ObjectMeta{Name: "key", OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(&older, crdv1.GroupVersion().WithKind(crdv1.KindSandbox))}}},
		}, nil},
		{"deprecated and foreign fields make nothing", sandbox.Input{Sandbox: with(asks(target("Deployment", "ns", "a")), func(s *crdv1.SignadotSandboxSpec) {
			s.Customization.Images = []crdv1.ImageOverride{{Name: "i", Namespace: "ns", NewName: "j", NewTag: "2"}}
			s.ClusterName, s.SDRevision, s.DisableSandboxTrafficManager = "c", 7, true
		})}, []string{"ForkedWorkload in ns for a", "config key of 1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.OperatorNamespace = "operator"
			d, _ := decided(tt.in)
			if diff := cmp.Diff(tt.want, parts(d)); diff != "" {
				t.Error(diff)
			}
			fieldsOf(t, tt.in)
		})
	}
}

func TestPartsNameTheirOwner(t *testing.T) {
	in := sandbox.Input{OperatorNamespace: "operator", Sandbox: with(asks(target("Deployment", "ns", "a")), func(s *crdv1.SignadotSandboxSpec) {
		s.ExternalWorkloads = []crdv1.SandboxExternalWorkload{{Name: "e"}}
		s.VirtualWorkloads = []crdv1.SandboxVirtualWorkload{{Name: "v", Baseline: workload("Deployment", "ns", "b")}}
		s.ManagedResources = []crdv1.SandboxResource{{Name: "r", PluginName: "p"}}
	})}
	d := sandbox.Decide(in)
	all := []metav1.Object{d.Config, sandbox.Provide(in)[0]}
	for _, w := range d.Members {
		all = append(all, w.Object)
	}
	for _, o := range all {
		owner := metav1.GetControllerOf(o)
		if owner == nil || owner.UID != types.UID("sb-uid") || o.GetLabels()[crdv1.LabelSandbox] != "sb" ||
			o.GetAnnotations()[crdv1.AnnotationRoutingKey] != "key" || o.GetAnnotations()[crdv1.AnnotationSandboxName] != "shown" {
			t.Errorf("%+v", o)
		}
	}
}

func TestNamesOfParts(t *testing.T) {
	fork := func(s *crdv1.SignadotSandbox, kind, workload string) string {
		s = with(s, func(s *crdv1.SignadotSandboxSpec) {
			s.Customization.Patches = []crdv1.TargetedPatch{target(kind, "ns", workload)}
		})
		return sandbox.Decide(sandbox.Input{Sandbox: s}).Members[0].Object.GetName()
	}
	one, other, long := asks(), asks(), asks()
	other.Name = "sb-a"
	long.Name = "a-sandbox-whose-name-is-nearly-as-long-as-kubernetes-would-ever-allow-it-to-be"
	if fork(one, "Deployment", "a-x") == fork(other, "Deployment", "x") {
		t.Error("two sandboxes share a ForkedWorkload")
	}
	if got := fork(one, "Deployment", "a"); got != "sb-a-db472f87" {
		t.Errorf("the ForkedWorkload of a Deployment is called %s: those that are there would be made anew", got)
	}
	if n := fork(long, "Deployment", "and-a-workload"); len(n) > crdv1.MaxServiceName {
		t.Errorf("%s does not fit into a label", n)
	}
}
