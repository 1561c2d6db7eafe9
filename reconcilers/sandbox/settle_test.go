package sandbox_test

import (
	"fmt"
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/sandbox"
)

// anySpec draws a spec out of few names, so that they meet often.
func anySpec() *rapid.Generator[crdv1.SignadotSandboxSpec] {
	return rapid.Custom(func(t *rapid.T) crdv1.SignadotSandboxSpec {
		name := rapid.SampledFrom([]string{"", "a", "b", "c"})
		ref := rapid.Custom(func(t *rapid.T) crdv1.ObjectRef {
			return workload(rapid.SampledFrom([]string{"Deployment", "Deployment", "Rollout", "StatefulSet", ""}).Draw(t, "kind"),
				rapid.SampledFrom([]string{"ns", "n2", ""}).Draw(t, "namespace"), name.Draw(t, "workload"))
		})
		patch := rapid.Custom(func(t *rapid.T) crdv1.TargetedPatch {
			p := crdv1.TargetedPatch{Target: ref.Draw(t, "target")}
			if rapid.Bool().Draw(t, "merge") {
				p.Merge = &runtime.RawExtension{Raw: []byte(`{"spec":{"x":"` + name.Draw(t, "value") + `"}}`)}
			}
			if rapid.Bool().Draw(t, "strategic") {
				p.Strategic = &runtime.RawExtension{Raw: []byte(`{}`)}
			}
			return p
		})
		externalWorkload := rapid.Custom(func(t *rapid.T) crdv1.SandboxExternalWorkload {
			x := crdv1.SandboxExternalWorkload{Name: name.Draw(t, "name")}
			if rapid.Bool().Draw(t, "has a baseline") {
				x.Baseline = &crdv1.ExternalBaseline{ObjectRef: ref.Draw(t, "baseline"), Fake: rapid.Bool().Draw(t, "fake")}
			}
			return x
		})
		virtual := rapid.Custom(func(t *rapid.T) crdv1.SandboxVirtualWorkload {
			return crdv1.SandboxVirtualWorkload{Name: name.Draw(t, "name"), Baseline: ref.Draw(t, "baseline")}
		})
		resource := rapid.Custom(func(t *rapid.T) crdv1.SandboxResource {
			return crdv1.SandboxResource{Name: name.Draw(t, "name"), PluginName: name.Draw(t, "plugin")}
		})
		s := crdv1.SignadotSandboxSpec{
			ID:                rapid.SampledFrom([]string{"", "key", "key", "other"}).Draw(t, "id"),
			ExternalWorkloads: rapid.SliceOfN(externalWorkload, 0, 3).Draw(t, "externals"),
			VirtualWorkloads:  rapid.SliceOfN(virtual, 0, 3).Draw(t, "virtuals"),
			ManagedResources:  rapid.SliceOfN(resource, 0, 3).Draw(t, "resources"),
		}
		if rapid.Bool().Draw(t, "customized") {
			s.Customization = &crdv1.SandboxCustomization{Patches: rapid.SliceOfN(patch, 0, 4).Draw(t, "patches")}
		}
		return s
	})
}

func TestDecidingConvergesForAnySpec(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := sandbox.Input{OperatorNamespace: "operator", Sandbox: asks()}
		if rapid.Bool().Draw(t, "confined") {
			in.Namespaces = []string{"ns", "operator"}
		}
		for i := range rapid.IntRange(1, 3).Draw(t, "lives") { // A spec comes upon what others left.
			in.Sandbox = asks()
			in.Sandbox.Spec = anySpec().Draw(t, fmt.Sprint("spec ", i))
			in.KeyConfig = nil
			for j := range in.Configs {
				if in.Configs[j].Name == in.Sandbox.Spec.ID {
					in.KeyConfig = &in.Configs[j]
				}
			}
			for range rapid.IntRange(0, 3).Draw(t, "looks") {
				before := in
				var d sandbox.Decision
				in, d = lived(in)
				nothingTooEarly(t, before, in, d)
				switch rapid.SampledFrom([]string{"nothing", "engine", "forks"}).Draw(t, "who works") {
				case "engine":
					in = engine(in, "True", "Ready", "")
				case "forks":
					in = running(in)
				}
			}
		}
		for range 6 {
			in, _ = lived(running(engine(in, "True", "Ready", "")))
		}
		rest, d := lived(in)
		if len(d.SurplusConfigs)+len(d.SurplusMembers)+len(d.SurplusResources) > 0 {
			t.Fatalf("it does not come to rest: %v", parts(d))
		}
		if !reflect.DeepEqual(in.Members, rest.Members) || !reflect.DeepEqual(in.Configs, rest.Configs) {
			t.Fatalf("deciding again changes something: %v", parts(d))
		}
		wantedOnce(t, rest, d)
		rest.Sandbox.Generation = 7
		if after := sandbox.Conclude(rest, d, acted(rest, d), then); after.Status.ObservedGeneration != 7 {
			t.Fatalf("the status speaks of generation %d", after.Status.ObservedGeneration)
		} else if !reflect.DeepEqual(after, sandbox.Conclude(sandbox.Input{
			Sandbox: after, Resources: rest.Resources, Members: rest.Members, KeyConfig: rest.KeyConfig, Namespaces: rest.Namespaces,
		}, d, acted(rest, d), metav1.NewTime(then.Add(1)))) {
			t.Fatal("concluding again changes the status")
		}
	})
}

// nothingTooEarly checks the order of members and Resources in one look.
func nothingTooEarly(t *rapid.T, before, after sandbox.Input, d sandbox.Decision) {
	ready := map[string]bool{}
	for _, r := range after.Resources {
		ready[r.Name] = crdv1.IsTrue(r.Status.Conditions, crdv1.ConditionReady, r.Generation)
	}
	for _, want := range sandbox.Provide(before) {
		if ready[want.Name] {
			continue
		}
		for _, m := range after.Members {
			found := false
			for _, old := range before.Members {
				found = found || reflect.DeepEqual(m, old)
			}
			if w, ok := m.(*crdv1.ForkedWorkload); ok && !found && w.Annotations[crdv1.AnnotationWaitsFor] == "" {
				t.Fatalf("%s was made or changed while Resource %s is not ready, and is not held", place(m), want.Name)
			}
		}
	}
	for _, r := range d.SurplusResources {
		for _, m := range before.Members {
			if w, ok := m.(*crdv1.ForkedWorkload); ok && w.Spec.ResourceTemplateData[r.Spec.Name].ObjectName == r.Name {
				t.Fatalf("Resource %s goes while %s uses it", r.Name, place(m))
			}
		}
	}
}

// wantedOnce checks that every part is there for one field of the spec.
func wantedOnce(t *rapid.T, in sandbox.Input, d sandbox.Decision) {
	places, fields, routed := map[string]int{}, map[string]int{}, map[string]int{}
	for _, w := range d.Members {
		places[place(w.Object)]++
		fields[w.Field]++
	}
	if d.Config != nil {
		for _, m := range d.Config.Spec.SandboxedWorkloads {
			routed[fmt.Sprintf("%s %s/%s", m.Kind, m.Namespace, m.Name)]++
		}
	}
	for _, count := range []map[string]int{places, fields, routed} {
		for what, n := range count {
			if n != 1 || len(count) != len(in.Members) {
				t.Fatalf("%s is wanted %d times; members: %d, of %d", what, n, len(in.Members), len(count))
			}
		}
	}
	resources := map[string]bool{}
	for _, r := range sandbox.Provide(in) {
		if resources[r.Name] {
			t.Fatalf("Resource %s is wanted twice", r.Name)
		}
		resources[r.Name] = true
	}
}
