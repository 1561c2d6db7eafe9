package resource_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/resource"
	"switchyard.dev/tests/fields"
)

var now = metav1.NewTime(time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC))

// read reads an object.
func read[T any](t *testing.T, text string) *T {
	t.Helper()
	o := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), o); err != nil {
		t.Fatal(err)
	}
	return o
}

// db is what a sandbox has of its own.
func db(t *testing.T, deleted bool) *crdv1.Resource {
	t.Helper()
	r := read[crdv1.Resource](t, `
metadata: {name: sb-db, uid: r1, generation: 2, labels: {signadot.com/sandbox: sb}, annotations: {signadot.com/retry: now, note: x}}
spec: {name: db, pluginName: postgres, outputNamespaces: [shop, pay], olm: {preStart: [{name: make, type: ExecUnit, outputs: [{name: url}]}]}}`)
	if deleted {
		r.DeletionTimestamp = &now
	}
	return r
}

const (
	unit  = "{name: make, phase: Succeeded, attempt: 1, execUnit: {namespace: n, name: p}, podUID: u, grant: g, started: 2026-11-24T11:00:00Z, finished: 2026-11-24T11:01:00Z, form: f, reason: R, message: m, outputs: [url], retried: t}"
	head  = "metadata: {name: sb-db, generation: 1}\nspec: {ioContextName: sb-db}\nstatus: "
	units = "preCreate: [" + unit + "], postStop: [" + unit + "]"
)

// methods says how far they are, by the conditions Accepted, PreStartDone and Ready.
func methods(phase, accepted, done, ready string) string {
	one := func(name, of string) string {
		status, reason, _ := strings.Cut(of, " ")
		return fmt.Sprintf("{type: %s, status: %q, reason: %s, message: m, observedGeneration: 1}", name, status, reason)
	}
	return head + fmt.Sprintf("{phase: %s, %s, conditions: [%s, %s, %s]}", phase, units, one("Accepted", accepted), one("PreStartDone", done), one("Ready", ready))
}

func TestConclude(t *testing.T) {
	written, unwritten := condition.True("OutputsWritten", "They are."), condition.False(crdv1.ReasonPending, "Not yet.")
	for name, tt := range map[string]struct {
		methods         string
		refusal         *apply.Refusal
		written         condition.Condition
		deleted, leaves bool
		want            string
	}{
		"nothing runs its units yet":  {written: unwritten, want: "Pending: False Pending"},
		"what runs them is refused":   {refusal: &apply.Refusal{Reason: "NameTaken", Message: "m"}, written: unwritten, want: "Pending: False NameTaken"},
		"nobody has looked at it":     {methods: head + "{phase: Starting}", written: unwritten, want: "Creating: False Pending"},
		"a former form was looked at": {methods: strings.Replace(methods("Started", "True A", "True D", "True R"), "generation: 1", "generation: 2", 1), written: unwritten, want: "Creating: False Pending"},
		"its units run":               {methods: methods("Starting", "True A", "False Running", "False Running"), written: unwritten, want: "Creating: False Running"},
		"a unit has failed":           {methods: methods("OLMFailed", "True A", "False ScriptFailed", "False ScriptFailed"), written: unwritten, want: "Failed: False ResourceFailed"},
		"its units cannot run":        {methods: methods("Pending", "False NoInterpreter", "False Running", "False NoInterpreter"), written: unwritten, want: "Failed: False ResourceFailed"},
		"its outputs are not there":   {methods: methods("Started", "True A", "True D", "True R"), written: unwritten, want: "Creating: False Pending"},
		"its outputs are too large":   {methods: methods("Started", "True A", "True D", "True R"), written: condition.False(resource.ReasonOutputsTooLarge, "m"), want: "Failed: False ResourceFailed"},
		"it is made":                  {methods: methods("Started", "True A", "True D", "True R"), written: written, want: "Ready: True Ready"},
		"it is about to be removed":   {methods: methods("Started", "True A", "True D", "True R"), written: written, deleted: true, want: "Deleting: False Deleting"},
		"a failed one is deleted":     {methods: methods("OLMFailed", "True A", "False ScriptFailed", "False ScriptFailed"), written: unwritten, deleted: true, want: "Deleting: False Deleting"},
		"it is being removed":         {methods: methods("Stopping", "True A", "True D", "False Ending"), written: written, deleted: true, leaves: true, want: "Deleting: False Ending"},
		"its removal has failed":      {methods: methods("OLMFailed", "True A", "True D", "False ScriptFailed"), written: written, deleted: true, leaves: true, want: "Failed: False ScriptFailed"},
		"it is removed":               {written: written, deleted: true, want: "Deleting: False Deleting"},
	} {
		t.Run(name, func(t *testing.T) {
			in := resource.Input{Refusal: tt.refusal, Written: tt.written}
			if tt.methods != "" {
				in.Methods = read[crdv1.SignadotObjectLifecycleMethods](t, tt.methods)
			}
			if tt.leaves {
				in.Methods.DeletionTimestamp = &now
			}
			decide := func(r *crdv1.Resource) (any, client.Object) {
				in := in
				in.Resource = r
				return []any{resource.Methods(r), resource.Missing(r, nil), resource.Recorded(r, "f"), resource.Output(r, "s", "n", nil)}, resource.Conclude(in, now)
			}
			r := db(t, tt.deleted)
			_, after := decide(r)
			got := after.(*crdv1.Resource)
			ready := crdv1.FindCondition(got.Status.Conditions, crdv1.ConditionReady)
			if line := fmt.Sprintf("%s: %s %s", got.Status.Phase, ready.Status, ready.Reason); line != tt.want {
				t.Errorf("%s, want %s: %+v", line, tt.want, got.Status)
			}
			fields.Row(t, crdv1.KindResource, r, decide)
		})
	}
}

// What runs the units has the annotations that are for it, and no others.
func TestResourcesCreateALifecycleMethods(t *testing.T) {
	m := resource.Methods(db(t, false))
	if m.Name != "sb-db" || m.Annotations[crdv1.AnnotationRetry] != "now" || len(m.Annotations) != 1 || m.Labels[crdv1.LabelSandbox] != "sb" ||
		len(m.Spec.PreStart) != 1 || m.Spec.IOContextName == "" || !apply.IsOwned(m, "r1") || m.Finalizers[0] != crdv1.Finalizer {
		t.Errorf("%+v", m)
	}
}

// Outputs fit into a Secret or are refused; the Secret is never changed, and belongs to the Resource.
func TestOutputsAreASecretThatIsNeverChanged(t *testing.T) {
	full := map[string][]byte{"make.a": make([]byte, 1<<19), "make.b": make([]byte, 1<<19)}
	s := resource.Output(db(t, false), "sb-db-1", "shop", full)
	if err := resource.Fits(full); err != nil || s.Namespace != "shop" || s.Name != "sb-db-1" || len(s.Data) != 2 || !*s.Immutable || s.Type != "Opaque" || !apply.IsOwned(s, "r1") {
		t.Errorf("%v, %+v", err, s.ObjectMeta)
	}
	full["make.c"] = []byte("x")
	if err := resource.Fits(full); err == nil || !strings.Contains(err.Error(), "1048577 bytes together") {
		t.Error(err)
	}
}

// Other runs of the units may have other outputs, which are in Secrets of another name.
func TestOutputsAreThoseOfTheRunsOfUnits(t *testing.T) {
	m := read[crdv1.SignadotObjectLifecycleMethods](t, methods("Started", "True A", "True D", "True R"))
	m.Spec.PreStart = db(t, false).Spec.OLM.PreStart
	form := resource.Form(m)
	again := m.DeepCopy()
	again.Status.PreCreate[0].PodUID = "another"
	more := m.DeepCopy()
	more.Spec.PreStart[0].Outputs = append(more.Spec.PreStart[0].Outputs, crdv1.WorkUnitOutput{Name: "password"})
	if resource.Form(again) == form || resource.Form(more) == form || resource.Form(m.DeepCopy()) != form {
		t.Errorf("%s, %s and %s", form, resource.Form(again), resource.Form(more))
	}
	r := db(t, false)
	r.Status.Outputs = &crdv1.ResourceOutputs{SecretName: "s", Form: form, Namespaces: []string{"pay"}}
	if have := resource.Recorded(r, form); have == nil || fmt.Sprint(resource.Missing(r, have)) != "[shop]" {
		t.Errorf("%+v is recorded", have)
	}
	if have := resource.Recorded(r, resource.Form(again)); have != nil || len(resource.Missing(r, have)) != 2 {
		t.Errorf("%+v has the outputs of another run", have)
	}
}

// A Secret that an earlier release wrote goes on being used: forks are not restarted by an upgrade.
func TestSecretsOfAnEarlierReleaseAreKept(t *testing.T) {
	for name, c := range map[string]struct {
		condition crdv1.StatusCondition
		kept      bool
	}{
		"it had written them":   {crdv1.StatusCondition{Status: "True", Reason: "OutputsWritten", ObservedGeneration: 2}, true},
		"of a former spec":      {crdv1.StatusCondition{Status: "True", Reason: "OutputsWritten", ObservedGeneration: 1}, false},
		"it was about to":       {crdv1.StatusCondition{Status: "False", Reason: "Pending", ObservedGeneration: 2}, false},
		"none were wanted then": {crdv1.StatusCondition{Status: "True", Reason: "NoOutputsWanted", ObservedGeneration: 2}, false},
	} {
		r := db(t, false)
		c.condition.Type = crdv1.ConditionOutputsWritten
		r.Status.Conditions = []crdv1.StatusCondition{c.condition}
		have := resource.Recorded(r, "f")
		if (have != nil) != c.kept || c.kept && (have.SecretName != "sb-db" || len(resource.Missing(r, have)) > 0) {
			t.Errorf("%s: %+v", name, have)
		}
	}
}

// Why a value is missing: it was deleted, or the step had no such output when it ran.
func TestMissingValues(t *testing.T) {
	m := read[crdv1.SignadotObjectLifecycleMethods](t, methods("Ready", "True A", "True D", "True R"))
	m.Spec.PreStart = []crdv1.WorkUnit{{Name: "make", Outputs: []crdv1.WorkUnitOutput{{Name: "url"}, {Name: "port"}}}}
	for key, says := range map[string]string{
		"make.url":  `The value of output "make.url" was deleted. kubectl delete resource sb-db deletes the resource with its data, and the sandbox creates it again.`,
		"make.port": `Step "make" ran before its plugin had the output "port", and does not run again. kubectl delete resource sb-db deletes`,
	} {
		if c := resource.Valueless(db(t, false), m, key); !c.IsFalse() || c.Reason != "OutputMissing" || !strings.HasPrefix(c.Message, says) {
			t.Errorf("%s: %+v", key, c)
		}
	}
}

// What the chart must allow is named as dry-run names it.
func TestAStepThatIsNotAllowed(t *testing.T) {
	m := read[crdv1.SignadotObjectLifecycleMethods](t, methods("Pending", "False PodNotAllowed", "Unknown D", "False PodNotAllowed"))
	crdv1.FindCondition(m.Status.Conditions, crdv1.ConditionAccepted).Message = "Take it out, or allow it in workflows.runner.allow."
	got := resource.Conclude(resource.Input{Resource: db(t, false), Methods: m}, now)
	if c := crdv1.FindCondition(got.Status.Conditions, crdv1.ConditionAccepted); c.Message != "Take it out, or allow it in workflows.runner.allow." {
		t.Errorf("%+v", c)
	}
}

// Delete steps that wait start by themselves: retry is not advised for them. Those that lack an input fail
// again, unless they are replaced.
func TestAdviceOnDeleteSteps(t *testing.T) {
	const giveUp = ` Annotate X with signadot.com/give-up: "true" to skip them.`
	for name, tt := range map[string]struct {
		phase, accepted, reason, message string
		retry                            bool
	}{
		"they failed":       {"OLMFailed", "True A", "ScriptFailed", `Step "drop": exit code 3. Annotate X with signadot.com/retry: TIME to run it again, or with signadot.com/give-up: "true".`, true},
		"they cannot run":   {"Pending", "False NoInterpreter", "NoInterpreter", "Delete steps cannot run: no interpreter." + giveUp, true},
		"they wait":         {"Stopping", "True A", "NamespaceNotFound", `Step "drop" waits: create its namespace.` + giveUp, false},
		"they lack a value": {"OLMFailed", "True A", "InputMissing", `Step "drop" reads "make.url", which is not given.` + giveUp, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := read[crdv1.SignadotObjectLifecycleMethods](t, methods(tt.phase, tt.accepted, "True D", "False "+tt.reason))
			m.DeletionTimestamp = &now
			crdv1.FindCondition(m.Status.Conditions, crdv1.ConditionReady).Message = tt.message
			got := resource.Conclude(resource.Input{Resource: db(t, true), Methods: m}, now)
			message := crdv1.FindCondition(got.Status.Conditions, crdv1.ConditionReady).Message
			if strings.Contains(message, "resource retry") != tt.retry || !strings.Contains(message, "switchyard resource give-up --sandbox sb db") {
				t.Errorf("retry advised: want %t: %s", tt.retry, message)
			}
		})
	}
}
