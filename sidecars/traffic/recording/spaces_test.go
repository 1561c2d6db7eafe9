package recording

import (
	"errors"
	"slices"
	"strings"
	"testing"

	crdv1 "switchyard.dev/protos/crd/v1"
)

func TestMembersOfEachKindAreRecorded(t *testing.T) {
	at := func(name string) crdv1.ObjectRef { return crdv1.ObjectRef{Namespace: "ns-" + name, Name: name} }
	s := &crdv1.SignadotSandbox{}
	if _, err := spacesOf(s, Asked{}); !errors.Is(err, ErrNoFork) {
		t.Errorf("no member: %v", err)
	}
	s.Spec.VirtualWorkloads = []crdv1.SandboxVirtualWorkload{{Name: "v", Baseline: at("virtual")}}
	if got, err := spacesOf(s, Asked{}); err != nil || !slices.Equal(got, []string{"ns-virtual"}) {
		t.Errorf("of a virtual workload: %v, %v", got, err)
	}
	s.Spec.Customization = &crdv1.SandboxCustomization{Patches: []crdv1.TargetedPatch{{Target: at("forked")}}}
	s.Spec.ExternalWorkloads = []crdv1.SandboxExternalWorkload{
		{Name: "x", Baseline: &crdv1.ExternalBaseline{ObjectRef: at("external")}}, {Name: "none"}, {Name: "fake", Baseline: &crdv1.ExternalBaseline{ObjectRef: at("fake"), Fake: true}},
	}
	for workload, want := range map[string][]string{"": {"ns-external", "ns-forked", "ns-virtual"}, "virtual": {"ns-virtual"}, "v": {"ns-virtual"}, "x": {"ns-external"}, "fake": nil, "none": nil} {
		if got, err := spacesOf(s, Asked{Workload: workload}); !slices.Equal(got, want) || errors.Is(err, ErrNoFork) != (want == nil) {
			t.Errorf("workload %q: %v, %v", workload, got, err)
		} else if err != nil && !strings.Contains(err.Error(), " of forked, v (baseline virtual), x (baseline external), and none of "+workload) {
			t.Error(err)
		}
	}
}
