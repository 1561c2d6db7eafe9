package sandbox_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/routingkey"
	"switchyard.dev/reconcilers/sandbox"
)

// target is a patch that names a workload.
func target(kind, namespace, name string) crdv1.TargetedPatch {
	apiVersion := map[string]string{"Rollout": "argoproj.io/v1alpha1"}[kind]
	if apiVersion == "" {
		apiVersion = "apps/v1"
	}
	return crdv1.TargetedPatch{Target: crdv1.ObjectRef{APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name}}
}

// asks makes a sandbox with these patches.
func asks(patches ...crdv1.TargetedPatch) *crdv1.SignadotSandbox {
	return &crdv1.SignadotSandbox{
		ObjectMeta: metav1.ObjectMeta{Name: "sb", UID: "sb-uid", Generation: 1, CreationTimestamp: then},
		Spec:       crdv1.SignadotSandboxSpec{ID: "key", Name: "shown", Customization: &crdv1.SandboxCustomization{Patches: patches}},
	}
}

// parts names the parts of a decision.
func parts(d sandbox.Decision) (out []string) {
	for _, f := range d.Forks {
		out = append(out, "fork "+f.Namespace+"/"+f.Spec.Baseline.Name)
	}
	if d.Config != nil {
		out = append(out, "config "+d.Config.Name)
	}
	for _, f := range d.SurplusForks {
		out = append(out, "not fork "+f.Name)
	}
	for _, c := range d.SurplusConfigs {
		out = append(out, "not config "+c.Name)
	}
	return out
}

func TestPartsOfASandbox(t *testing.T) {
	mine := []metav1.OwnerReference{*metav1.NewControllerRef(asks(), crdv1.GroupVersion().WithKind(crdv1.KindSandbox))}
	old := crdv1.RoutingConfig{ObjectMeta: metav1.ObjectMeta{Name: "old-key", OwnerReferences: mine}}
	stale := crdv1.ForkedWorkload{ObjectMeta: metav1.ObjectMeta{Name: "stale", Namespace: "ns", OwnerReferences: mine}}
	older := *asks()
	older.Name, older.UID, older.CreationTimestamp = "older", "older-uid", metav1.NewTime(then.Add(-1))

	tests := []struct {
		name string
		in   sandbox.Input
		want []string
	}{
		{"one fork for each workload, in the order of the first patch for it", sandbox.Input{Sandbox: asks(
			target("Deployment", "ns", "b"), target("Deployment", "ns", "a"), target("Deployment", "ns", "b"), target("Deployment", "n2", "b"),
		)}, []string{"fork ns/b", "fork ns/a", "fork n2/b", "config key"}},
		{"what cannot be forked is left out", sandbox.Input{Sandbox: asks(
			target("StatefulSet", "ns", "a"), target("Rollout", "ns", "a"), target("Deployment", "", "a"), target("Deployment", "ns", ""),
			target("Deployment", "ns", "good"),
		)}, []string{"fork ns/good", "config key"}},
		{"where the operator may not work nothing is forked", sandbox.Input{
			Sandbox: asks(target("Deployment", "ns", "a"), target("Deployment", "ok", "a")), Namespaces: []string{"ok"},
		}, []string{"fork ok/a", "config key"}},
		{"what is not wanted any more goes", sandbox.Input{
			Sandbox: asks(), Forks: []crdv1.ForkedWorkload{stale}, Configs: []crdv1.RoutingConfig{old},
		}, []string{"config key", "not fork stale", "not config old-key"}},
		{"without its key a sandbox has no parts", sandbox.Input{
			Sandbox: asks(target("Deployment", "ns", "a")), Claims: []routingkey.Claim{routingkey.OfSandbox(&older)},
			Forks: []crdv1.ForkedWorkload{stale}, Configs: []crdv1.RoutingConfig{old},
		}, []string{"not fork stale", "not config old-key"}},
		{"a key that somebody declared by hand is not taken away", sandbox.Input{
			Sandbox: asks(target("Deployment", "ns", "a")), KeyConfig: &crdv1.RoutingConfig{ObjectMeta: metav1.ObjectMeta{Name: "key"}},
		}, nil},
		{"while a resource is wanted everything stays as it is", sandbox.Input{Sandbox: func() *crdv1.SignadotSandbox {
			s := asks(target("Deployment", "ns", "a"))
			s.Spec.ManagedResources = []crdv1.SandboxResource{{Name: "r"}}
			return s
		}(), Forks: []crdv1.ForkedWorkload{stale}}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, parts(sandbox.Decide(tt.in))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPartsSayWhoseTheyAre(t *testing.T) {
	d := sandbox.Decide(sandbox.Input{Sandbox: asks(target("Deployment", "ns", "a"))})
	for _, o := range []metav1.Object{d.Forks[0], d.Config} {
		owner := metav1.GetControllerOf(o)
		if owner == nil || owner.UID != types.UID("sb-uid") || o.GetLabels()[crdv1.LabelSandbox] != "sb" ||
			o.GetAnnotations()[crdv1.AnnotationRoutingKey] != "key" || o.GetAnnotations()[crdv1.AnnotationSandboxName] != "shown" {
			t.Errorf("%+v", o)
		}
	}
	if got := d.Config.Spec.SandboxedWorkloads[0]; got.Name != d.Forks[0].Name || got.SandboxName != "shown" {
		t.Errorf("member: %+v", got)
	}
}

func TestNamesOfForks(t *testing.T) {
	name := func(s *crdv1.SignadotSandbox, workload string) string {
		return sandbox.Decide(sandbox.Input{Sandbox: withTarget(s, workload)}).Forks[0].Name
	}
	one, other := asks(), asks()
	other.Name = "sb-a"
	if name(one, "a-x") == name(other, "x") {
		t.Error("two sandboxes share a ForkedWorkload")
	}
	long := asks()
	long.Name = "a-sandbox-whose-name-is-nearly-as-long-as-kubernetes-would-ever-allow-it-to-be"
	if n := name(long, "and-a-workload"); len(n) > 63 {
		t.Errorf("%s does not fit into a label", n)
	}
}

func withTarget(s *crdv1.SignadotSandbox, workload string) *crdv1.SignadotSandbox {
	s = s.DeepCopy()
	s.Spec.Customization.Patches = []crdv1.TargetedPatch{target("Deployment", "ns", workload)}
	return s
}
