package sandbox_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/sandbox"
)

// withResources is a sandbox with a fork, an external workload, and these resources.
func withResources(names ...string) *crdv1.SignadotSandbox {
	return with(asks(target("Deployment", "ns", "a"), target("Deployment", "n2", "b"), target("Deployment", "ns", "c")), func(s *crdv1.SignadotSandboxSpec) {
		s.ExternalWorkloads = []crdv1.SandboxExternalWorkload{{Name: "e"}}
		for _, n := range names {
			s.ManagedResources = append(s.ManagedResources, crdv1.SandboxResource{
				Name: n, PluginName: "plugin", OLM: crdv1.OLM{PreStart: []crdv1.WorkUnit{{Name: "make", Type: "ExecUnit"}}},
			})
		}
	})
}

func TestAResourceKnowsItsPluginAndWhoGetsItsOutputs(t *testing.T) {
	s := withResources("db")
	s.Spec.Customization.Patches = append(s.Spec.Customization.Patches, target("StatefulSet", "n3", "x"))
	all := sandbox.Provide(sandbox.Input{Sandbox: s, OperatorNamespace: "operator"})
	if len(all) != 1 {
		t.Fatalf("%d Resources", len(all))
	}
	want := crdv1.ResourceSpec{Name: "db", PluginName: "plugin", OLM: s.Spec.ManagedResources[0].OLM, OutputNamespaces: []string{"n2", "ns"}}
	if diff := cmp.Diff(want, all[0].Spec); diff != "" {
		t.Error(diff)
	}
	d, _ := decided(engine(provided(sandbox.Input{Sandbox: s, OperatorNamespace: "operator"}), "True", "Ready", ""))
	w, ok := d.Members[0].Object.(*crdv1.ForkedWorkload)
	told := map[string]crdv1.ResourceTemplateData{"db": {Name: "db", ObjectName: all[0].Name, OutputKind: "Secret"}}
	if !ok || d.Members[0].Waits || cmp.Diff(told, w.Spec.ResourceTemplateData) != "" {
		t.Errorf("a fork is told %v, waits %v", w.Spec.ResourceTemplateData, d.Members[0].Waits)
	}
}

func TestMembersWaitForResources(t *testing.T) {
	fresh := sandbox.Input{Sandbox: withResources("db"), OperatorNamespace: "operator"}
	ready := engine(provided(fresh), "True", "Ready", "made")
	live, _ := lived(ready)
	phase := func(in sandbox.Input, phase string, generation int64) sandbox.Input {
		in.Resources[0].Status = crdv1.ResourceStatus{Phase: phase, ObservedGeneration: generation}
		return in
	}
	changed := live
	changed.Sandbox = with(live.Sandbox, func(s *crdv1.SignadotSandboxSpec) { s.ManagedResources[0].PluginName = "newer" })
	more := live
	more.Sandbox = withResources("db", "cache")
	more.Sandbox.Spec.Customization.Patches = append(more.Sandbox.Spec.Customization.Patches, target("Deployment", "ns", "d"))
	held := provided(fresh)
	held.Resources[0].DeletionTimestamp = &then
	object := provided(fresh).Resources[0].Name

	tests := []struct {
		name    string
		in      sandbox.Input
		waits   bool
		status  string
		reason  string
		message string
		ready   []crdv1.SandboxResourceStatus
		routed  int
	}{
		{"a sandbox without resources waits for nothing", sandbox.Input{Sandbox: withResources(), OperatorNamespace: "operator"},
			false, "True", "NoResources", "no resources", nil, 4},
		{"nobody has looked at the Resource, and the message says that nobody will", fresh,
			true, "Unknown", "Pending", "does not run the workflows of resource plugins", []crdv1.SandboxResourceStatus{{Name: "db"}}, 0},
		{"who makes it is at work", engine(provided(fresh), "False", "Creating", "step 1 of 2"),
			true, "False", "ResourcesNotReady", "Creating): step 1 of 2", []crdv1.SandboxResourceStatus{{Name: "db"}}, 0},
		{"who makes it says nothing of Ready yet", phase(provided(fresh), "Creating", 1),
			true, "Unknown", "ResourcesNotReady", "has not said yet", []crdv1.SandboxResourceStatus{{Name: "db"}}, 0},
		{"it is made", ready, false, "True", "ResourcesReady", "1 of 1", []crdv1.SandboxResourceStatus{{Name: "db", Ready: true}}, 4},
		{"it failed for good, as its condition says", engine(provided(fresh), "False", "ResourceFailed", "step make: exit code 1."),
			true, "False", "ResourceFailed", `Resource "db" (Resource ` + object + `) failed, and no member starts without it: step make: exit code 1.`,
			[]crdv1.SandboxResourceStatus{{Name: "db", Failed: true}}, 0},
		{"it failed for good, as its phase says", phase(provided(fresh), "OLMFailed", 1),
			true, "False", "ResourceFailed", "OLMFailed", []crdv1.SandboxResourceStatus{{Name: "db", Failed: true}}, 0},
		{"that a former form of it failed says nothing", phase(provided(fresh), "Failed", 0),
			true, "Unknown", "ResourcesNotReady", "has not said yet", []crdv1.SandboxResourceStatus{{Name: "db"}}, 0},
		{"that a former form of it was ready says nothing, and what runs keeps its routing", changed,
			true, "Unknown", "ResourcesNotReady", "has changed", []crdv1.SandboxResourceStatus{{Name: "db"}}, 4},
		{"a resource that is added later stops nothing, and new forks wait", more,
			true, "Unknown", "Pending", `Resource "cache"`, []crdv1.SandboxResourceStatus{{Name: "db", Ready: true}, {Name: "cache"}}, 4},
		{"somebody deletes it", held, true, "False", "ResourcesNotReady", "made again", []crdv1.SandboxResourceStatus{{Name: "db"}}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := tt.in
			if tt.name != "somebody deletes it" {
				in = provided(in)
			}
			d := sandbox.Decide(in)
			for _, w := range d.Members {
				if w.Waits != tt.waits {
					t.Errorf("%s waits: %v", w.Field, w.Waits)
				}
			}
			if n := len(d.Config.Spec.SandboxedWorkloads); n != tt.routed || len(d.SurplusMembers) > 0 {
				t.Errorf("%d members are routed, and %d go", n, len(d.SurplusMembers))
			}
			after := sandbox.Conclude(in, d, acted(in, d), then)
			c := crdv1.FindCondition(after.Status.Conditions, crdv1.ConditionResourcesReady)
			if c.Status != tt.status || c.Reason != tt.reason || !strings.Contains(c.Message, tt.message) {
				t.Errorf("%+v", *c)
			}
			if diff := cmp.Diff(tt.ready, after.Status.ManagedResources); diff != "" {
				t.Error(diff)
			}
			for _, r := range tt.ready {
				if after.Status.ReadyManagedResources[r.Name] != r.Ready {
					t.Errorf("deprecated: %v", after.Status.ReadyManagedResources)
				}
			}
			if r := crdv1.FindCondition(after.Status.Conditions, crdv1.ConditionReady); tt.status == "False" && r.Reason != tt.reason {
				t.Errorf("Ready: %+v", *r)
			}
			fieldsOf(t, in)
		})
	}
}

func TestAResourceThatIsNotNamedAnyMoreGoesWhenNoForkUsesIt(t *testing.T) {
	in, _ := lived(engine(provided(sandbox.Input{Sandbox: withResources("db", "cache"), OperatorNamespace: "operator"}), "True", "Ready", ""))
	in = running(in)
	in.Sandbox = withResources("cache")
	in, d := lived(in)
	if len(d.SurplusResources) > 0 {
		t.Fatal("it goes while the forks know of it")
	}
	said := func(d sandbox.Decision) string { return d.Findings[crdv1.ConditionResourcesReady].Message }
	if !strings.Contains(said(d), `Resource "db", which the sandbox does not name any more, goes once ForkedWorkload`) {
		t.Error(said(d))
	}
	if in, d = lived(in); len(d.SurplusResources) > 0 {
		t.Fatal("it goes before the pods that know of it have gone")
	}
	broken := running(in)
	w, ok := broken.Members[0].(*crdv1.ForkedWorkload)
	if !ok {
		t.Fatal("the first member is a fork")
	}
	crdv1.SetCondition(&w.Status.Conditions, metav1.Condition{Type: crdv1.ConditionAccepted, Status: "False", ObservedGeneration: w.Generation})
	if d = sandbox.Decide(broken); len(d.SurplusResources) > 0 {
		t.Error("it goes although a fork stays as it was")
	}
	in, d = lived(running(in))
	if len(d.SurplusResources) != 1 || d.SurplusResources[0].Spec.Name != "db" || len(in.Resources) != 1 {
		t.Errorf("it does not go: %v", parts(d))
	}
}

func TestAResourceThatCannotBeWrittenIsSaid(t *testing.T) {
	in := sandbox.Input{Sandbox: withResources("db"), OperatorNamespace: "operator"}
	object := sandbox.Provide(in)[0].Name
	for _, tt := range []struct {
		name, status, reason string
		refusal              *apply.Refusal
	}{
		{"it is refused", "False", "NameTaken", &apply.Refusal{Reason: "NameTaken", Message: "somebody has it"}},
		{"it is tried again", "Unknown", "Pending", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in.Unwritten = map[string]*apply.Refusal{object: tt.refusal}
			d := sandbox.Decide(in)
			f := d.Findings[crdv1.ConditionResourcesReady]
			if string(f.Status) != tt.status || f.Reason != tt.reason || !d.Members[0].Waits {
				t.Errorf("%+v", f)
			}
		})
	}
}

func TestResourcesWithoutANameOfTheirOwnAreLeftOut(t *testing.T) {
	in := sandbox.Input{Sandbox: withResources("db", "", "db"), OperatorNamespace: "operator"}
	if all := sandbox.Provide(in); len(all) != 1 {
		t.Errorf("%d Resources", len(all))
	}
	for name, says := range map[string]string{"": "managedResources[1] has no name", "db": `managedResources[1].name is "db"`} {
		in.Sandbox = withResources("db", name)
		if f := sandbox.Decide(in).Findings[crdv1.ConditionAccepted]; !f.IsNo() || !strings.Contains(f.Message, says) {
			t.Errorf("%+v", f)
		}
	}
}
