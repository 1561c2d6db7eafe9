package sandbox_test

import (
	"fmt"
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
	s.Spec.ExternalWorkloads = append(s.Spec.ExternalWorkloads, external("f", workload("Deployment", "n4", "f")))
	all := sandbox.Provide(sandbox.Input{Sandbox: s, OperatorNamespace: "operator"})
	if len(all) != 1 {
		t.Fatalf("%d Resources", len(all))
	}
	want := crdv1.ResourceSpec{Name: "db", PluginName: "plugin", OLM: s.Spec.ManagedResources[0].OLM, OutputNamespaces: []string{"n2", "n4", "ns"}}
	if diff := cmp.Diff(want, all[0].Spec); diff != "" {
		t.Error(diff)
	}
	d, _ := decided(engine(provided(sandbox.Input{Sandbox: s, OperatorNamespace: "operator"}), "True", "Ready", ""))
	w, ok := d.Members[0].Object.(*crdv1.ForkedWorkload)
	told := map[string]crdv1.ResourceTemplateData{"db": {Name: "db", ObjectName: all[0].Name, OutputKind: "Secret"}}
	if !ok || d.Members[0].WaitsFor != "" || cmp.Diff(told, w.Spec.ResourceTemplateData) != "" {
		t.Errorf("a fork is told %v, waits for %q", w.Spec.ResourceTemplateData, d.Members[0].WaitsFor)
	}
}

func TestForksWaitForResources(t *testing.T) {
	fresh := sandbox.Input{Sandbox: withResources("db"), OperatorNamespace: "operator"}
	ready := engine(provided(fresh), "True", "Ready", "made")
	unstarted, _ := lived(ready)
	live := running(unstarted)
	mended := unstarted
	mended.Sandbox = with(live.Sandbox, func(s *crdv1.SignadotSandboxSpec) { s.ManagedResources[0].PluginName = "newer" })
	phase := func(in sandbox.Input, phase string, generation int64) sandbox.Input {
		in.Resources[0].Status = crdv1.ResourceStatus{Phase: phase, ObservedGeneration: generation}
		return in
	}
	refused := func(in sandbox.Input) sandbox.Input {
		s := &in.Resources[0].Status
		s.Conditions = append(s.Conditions, crdv1.StatusCondition{Type: crdv1.ConditionAccepted, Status: "False", Reason: "PodNotAllowed", ObservedGeneration: in.Resources[0].Generation})
		return in
	}
	changed := live
	changed.Sandbox = with(live.Sandbox, func(s *crdv1.SignadotSandboxSpec) { s.ManagedResources[0].PluginName = "newer" })
	more := live
	more.Sandbox = withResources("db", "cache")
	more.Sandbox.Spec.Customization.Patches = append(more.Sandbox.Spec.Customization.Patches, target("Deployment", "ns", "d"))
	more.Sandbox.Spec.VirtualWorkloads = []crdv1.SandboxVirtualWorkload{{Name: "v", Baseline: workload("Deployment", "ns", "v")}}
	waiting, _ := lived(fresh)
	queued := waiting
	queued.Sandbox = withResources("db", "queue")
	deleted := provided(fresh)
	deleted.Resources[0].DeletionTimestamp = &then
	object := provided(fresh).Resources[0].Name

	const outside = "SignadotExternalWorkload in operator for "
	all := func(how string, more ...string) []string {
		forks := []string{"ForkedWorkload in ns for a" + how, "ForkedWorkload in n2 for b" + how, "ForkedWorkload in ns for c" + how}
		return append(append(forks, more...), fmt.Sprintf("config key of %d", len(forks)+len(more)))
	}
	stays := all(" waits for Resource db, and stays as it is", outside)
	waits := all(" waits for Resource db", outside)
	tests := []struct {
		name    string
		in      sandbox.Input
		want    []string
		status  string
		reason  string
		message string
		ready   []crdv1.SandboxResourceStatus
	}{
		{"a sandbox without resources waits for nothing", sandbox.Input{Sandbox: withResources(), OperatorNamespace: "operator"},
			all("", outside), "True", "NoResources", "no resources", nil},
		{"nobody has looked at the Resource; all members are declared, and forks are held", fresh,
			waits, "Unknown", "Pending", "is not reconciled yet", []crdv1.SandboxResourceStatus{{Name: "db"}}},
		{"nothing acts on the Resource, and the message says what the forks wait for", engine(provided(fresh), "Unknown", "NotSupportedYet", "Nothing acts on it."),
			waits, "Unknown", "NotSupportedYet", "this installation does not run the steps of resource plugins. Upgrade it with the operator's chart", []crdv1.SandboxResourceStatus{{Name: "db"}}},
		{"who makes it is at work", engine(provided(fresh), "False", "Creating", "step 1 of 2"),
			waits, "False", "ResourcesNotReady", "Creating): step 1 of 2", []crdv1.SandboxResourceStatus{{Name: "db"}}},
		{"who makes it says nothing of Ready yet", phase(provided(fresh), "Creating", 1),
			waits, "Unknown", "ResourcesNotReady", "is not reported ready yet", []crdv1.SandboxResourceStatus{{Name: "db"}}},
		{"it is made", ready, all("", outside), "True", "ResourcesReady", "1 of 1", []crdv1.SandboxResourceStatus{{Name: "db", Ready: true}}},
		{"it is made, and forks that were held are let go", engine(waiting, "True", "Ready", "made"),
			all("", outside), "True", "ResourcesReady", "1 of 1", []crdv1.SandboxResourceStatus{{Name: "db", Ready: true}}},
		{"forks that are held already wait for one more", queued, all(" waits for Resources db, queue", outside),
			"Unknown", "Pending", `"db"`, []crdv1.SandboxResourceStatus{{Name: "db"}, {Name: "queue"}}},
		{"it failed for good, as its condition says", engine(provided(fresh), "False", "ResourceFailed", "step make: exit code 1."),
			waits, "False", "ResourceFailed", `Resource "db" (Resource ` + object + `) failed, and its forks do not start: step make: exit code 1.`,
			[]crdv1.SandboxResourceStatus{{Name: "db", Failed: true}}},
		{"its steps may not run, and what to change is kept", refused(engine(provided(fresh), "False", "ResourceFailed", "Step make uses the host network. Take it out, or set workflows.runner.allow: [hostNamespaces].")),
			waits, "False", "ResourceFailed", `failed, and its forks do not start: Step make uses the host network. Take it out, or set workflows.runner.allow: [hostNamespaces].`,
			[]crdv1.SandboxResourceStatus{{Name: "db", Failed: true}}},
		{"it failed for good, as its phase says", phase(provided(fresh), "OLMFailed", 1),
			waits, "False", "ResourceFailed", "OLMFailed", []crdv1.SandboxResourceStatus{{Name: "db", Failed: true}}},
		{"that a former form of it failed says nothing", phase(provided(fresh), "Failed", 0),
			waits, "Unknown", "ResourcesNotReady", "is not reported ready yet", []crdv1.SandboxResourceStatus{{Name: "db"}}},
		{"that a former form of it was ready says nothing, and forks that run stay as they are", changed,
			stays, "Unknown", "ResourcesNotReady", "has changed", []crdv1.SandboxResourceStatus{{Name: "db"}}},
		{"a member whose fork has not started takes its new form, and is held", mended,
			waits, "Unknown", "ResourcesNotReady", "has changed", []crdv1.SandboxResourceStatus{{Name: "db"}}},
		{"a resource that is added later stops nothing that runs; new forks are held, and other members made", more,
			[]string{
				"ForkedWorkload in ns for a waits for Resources db, cache, and stays as it is", "ForkedWorkload in n2 for b waits for Resources db, cache, and stays as it is",
				"ForkedWorkload in ns for c waits for Resources db, cache, and stays as it is", "ForkedWorkload in ns for d waits for Resources db, cache",
				outside, "VirtualWorkload in ns for v", "config key of 6",
			}, "Unknown", "Pending", `Resource "cache"`, []crdv1.SandboxResourceStatus{{Name: "db", Ready: true}, {Name: "cache"}}},
		{"another client deletes it", deleted, waits, "False", "ResourcesNotReady", "re-created", []crdv1.SandboxResourceStatus{{Name: "db"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := tt.in
			if tt.name != "another client deletes it" {
				in = provided(in)
			}
			d := sandbox.Decide(in)
			if diff := cmp.Diff(tt.want, parts(d)); diff != "" {
				t.Error(diff)
			}
			for _, w := range d.Members {
				if why, held := w.Object.(metav1.Object).GetAnnotations()[crdv1.AnnotationWaitsFor]; !w.Keep && (why != w.WaitsFor || held != (why != "")) {
					t.Errorf("%s waits for %q and is held for %q", w.Field, w.WaitsFor, why)
				}
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

func TestForksReportTheResourcesTheyWaitFor(t *testing.T) {
	waiting, _ := lived(sandbox.Input{Sandbox: withResources("db"), OperatorNamespace: "operator"})
	waiting = running(waiting)
	live, _ := lived(engine(provided(sandbox.Input{Sandbox: withResources("db"), OperatorNamespace: "operator"}), "True", "Ready", "made"))
	changed := running(live)
	changed.Sandbox = with(live.Sandbox, func(s *crdv1.SignadotSandboxSpec) { s.ManagedResources[0].PluginName = "newer" })
	broken := func(in sandbox.Input, reason string) sandbox.Input {
		in = provided(running(in))
		m := in.Members[1]
		crdv1.SetCondition(m.StatusConditions(), metav1.Condition{Type: crdv1.ConditionReady, Status: "False", Reason: reason, Message: "It is broken.", ObservedGeneration: m.GetGeneration()})
		return in
	}
	for _, tt := range []struct {
		name           string
		in             sandbox.Input
		status, reason string
		says           string
		forks, ready   int32
	}{
		{"a fork that is held says for what, and what becomes of requests", waiting, "Unknown", "ResourcesNotReady",
			"customization.patches[0].target: its fork starts once these are ready: Resource db. Until then requests with the routing key fail with 503", 0, 0},
		{"a fork that runs says that it does, and counts", provided(changed), "Unknown", "ResourcesNotReady",
			"customization.patches[0].target: its fork keeps running, and is updated once these are ready: Resource db.", 3, 3},
		{"that the baseline is not there is said before", broken(waiting, "BaselineNotFound"), "False", "BaselineNotFound", "It is broken.", 0, 0},
		{"that a fork which runs is broken is said before", broken(changed, "ForkFailed"), "False", "ForkFailed", "It is broken.", 3, 3},
		{"once it is let go nothing is known until it is looked at again", engine(waiting, "True", "Ready", "made"),
			"Unknown", "Pending", "is not reconciled yet", 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := sandbox.Decide(tt.in)
			made := acted(tt.in, d)
			made.Config = made.Config.DeepCopy()
			published(made.Config, "True", "NotAwaited")
			after := sandbox.Conclude(tt.in, d, made, then)
			c := crdv1.FindCondition(after.Status.Conditions, crdv1.ConditionWorkloadsReady)
			if c.Status != tt.status || c.Reason != tt.reason || !strings.Contains(c.Message, tt.says) {
				t.Errorf("%+v", *c)
			}
			if after.Status.CustomizedDeployments != tt.forks || after.Status.ReadyDeployments != tt.ready {
				t.Errorf("%d forks, %d ready", after.Status.CustomizedDeployments, after.Status.ReadyDeployments)
			}
			if r := crdv1.FindCondition(after.Status.Conditions, crdv1.ConditionReady); r.Status != "False" {
				t.Errorf("%+v", *r)
			}
		})
	}
}

func TestTheListOfAwaitedResourcesIsShort(t *testing.T) {
	long := strings.Repeat("é", 300)
	d := sandbox.Decide(sandbox.Input{Sandbox: withResources(long, "b", "c", "d", "e", "f", "g"), OperatorNamespace: "operator"})
	if got, want := d.Members[0].WaitsFor, "Resources "+long[:62]+"..., b, c, d, e, and 2 more"; got != want {
		t.Errorf("%q, not %q", got, want)
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
	said := func(d sandbox.Decision) string { return d.Conditions[crdv1.ConditionResourcesReady].Message }
	if !strings.Contains(said(d), `Resource "db", which the sandbox no longer names, is deleted once ForkedWorkload`) {
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
	former := running(in)
	if w, ok = former.Members[0].(*crdv1.ForkedWorkload); ok { // As a leader with an old cache may have held it.
		w.Annotations = map[string]string{crdv1.AnnotationWaitsFor: "Resource cache"}
	}
	if d = sandbox.Decide(former); len(d.SurplusResources) > 0 {
		t.Error("it goes although a fork runs on in its former form")
	}
	in, d = lived(running(in))
	if len(d.SurplusResources) != 1 || d.SurplusResources[0].Spec.Name != "db" || len(in.Resources) != 1 {
		t.Errorf("it does not go: %v", parts(d))
	}
}

func TestAResourceThatCannotBeWrittenIsReported(t *testing.T) {
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
			f := d.Conditions[crdv1.ConditionResourcesReady]
			if string(f.Status) != tt.status || f.Reason != tt.reason || d.Members[0].WaitsFor != "Resource db" {
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
		d := sandbox.Decide(engine(provided(in), "True", "Ready", "made"))
		for _, condition := range []string{crdv1.ConditionAccepted, crdv1.ConditionResourcesReady} {
			if f := d.Conditions[condition]; !f.IsFalse() || f.Reason != "InvalidSpec" || !strings.Contains(f.Message, says) {
				t.Errorf("%s: %+v", condition, f)
			}
		}
		if d.Members[0].WaitsFor == "" {
			t.Error("a fork starts that one of the resources may be for")
		}
	}
}
