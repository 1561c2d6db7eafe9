package member_test

import (
	"slices"
	"testing"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/member"
)

// A new baseline enqueues the sandboxes that name it, in any role.
func TestWhichSandboxesABaselineIsOf(t *testing.T) {
	ref := func(name string) crdv1.ObjectRef {
		return crdv1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "ns", Name: name}
	}
	s := &crdv1.SignadotSandbox{Spec: crdv1.SignadotSandboxSpec{
		Customization:     &crdv1.SandboxCustomization{Patches: []crdv1.TargetedPatch{{Target: ref("a")}, {Target: ref("a")}, {Target: ref("d")}}},
		ExternalWorkloads: []crdv1.SandboxExternalWorkload{{Name: "none"}, {Name: "x", Baseline: &crdv1.ExternalBaseline{ObjectRef: ref("b")}}},
		VirtualWorkloads:  []crdv1.SandboxVirtualWorkload{{Name: "v", Baseline: ref("c")}},
	}}
	if got := member.BaselinesOf(s); !slices.Equal(got, []string{"ns/a", "ns/b", "ns/c", "ns/d"}) {
		t.Errorf("it names %v", got)
	}
	if got := append(member.BaselinesOf(&crdv1.SignadotSandbox{}), member.BaselinesOf(&crdv1.RoutingConfig{})...); len(got) > 0 {
		t.Errorf("others name %v", got)
	}
}
