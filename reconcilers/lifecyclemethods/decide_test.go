package lifecyclemethods_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/lifecyclemethods"
	"switchyard.dev/tests/fields"
	"switchyard.dev/workflows/engine"
	"switchyard.dev/workflows/execunit"
	"switchyard.dev/workflows/iocontext"
)

var now = metav1.NewTime(time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC))

const (
	script = `execUnitTemplate: {script: "#!/bin/sh", podTemplate: {spec: {containers: [{name: main, image: psql}]}}, outputExports: [{outputName: url, fromPath: /tmp/url}]}, outputs: [{name: url}]`
	reader = `inputs: [{name: url, iocontext: {name: io, key: make.url}}], execUnitTemplate: {script: "#!/bin/sh", podTemplate: {spec: {containers: [{name: main, image: psql}]}}}`
)

// object makes one whose preStart makes something, and whose postStop drops it.
func object(t *testing.T, status string, deleted bool) *crdv1.SignadotObjectLifecycleMethods {
	t.Helper()
	o := &crdv1.SignadotObjectLifecycleMethods{}
	text := "metadata: {name: db, uid: u1, generation: 2}\nspec: {ioContextName: io, preStart: [{name: make, type: ExecUnit, " + script + "}], postStop: [{name: drop, type: ExecUnit, " + reader + "}]}\nstatus: {" + status + "}"
	if err := yaml.UnmarshalStrict([]byte(text), o); err != nil {
		t.Fatal(err)
	}
	if deleted {
		o.DeletionTimestamp = &now
	}
	return o
}

// podOf makes the pod of a unit's first attempt, whose script has ended with a code; -1: it runs.
func podOf(unit string, code int32) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "signadot", Name: unit, UID: "p1", Labels: map[string]string{crdv1.LabelUnit: unit}, Annotations: map[string]string{crdv1.AnnotationAttempt: "1"}}}
	p.Spec.Containers, p.Spec.NodeName = []corev1.Container{{Name: "main"}, {Name: execunit.OutputManager}}, "node"
	main := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	if code >= 0 {
		said := ""
		if code > 0 {
			said = string(iocontext.Ending{Reason: iocontext.ScriptFailed, ExitCode: int(code), Message: "the script ended badly"}.Encode())
		}
		p.Status.Phase, main = corev1.PodSucceeded, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: said}}
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: main}, {Name: execunit.OutputManager, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}}
	return p
}

// line says what was decided: the phase, what begins, whether the object may go, and Ready.
func line(d lifecyclemethods.Decision, after *crdv1.SignadotObjectLifecycleMethods) string {
	out := after.Status.Phase
	if after.Status.FailedPhase != "" {
		out += " in " + after.Status.FailedPhase
	}
	if begin := append(d.Pre.Begin, d.Post.Begin...); len(begin) > 0 {
		out += " begin " + strings.Join(begin, " ")
	}
	if d.Over {
		out += " over"
	}
	if len(d.LeftBehind) > 0 {
		out += " leaves " + strings.Join(d.LeftBehind, " ")
	}
	ready := crdv1.FindCondition(after.Status.Conditions, crdv1.ConditionReady)
	return fmt.Sprintf("%s: %s %s", out, ready.Status, ready.Reason)
}

const (
	runs    = "execUnit: {namespace: signadot, name: x}, podUID: p1, grant: g, attempt: 1, started: 2026-11-24T11:59:00Z"
	made    = "preCreate: [{name: make, phase: Succeeded, attempt: 1, outputs: [url], " + "podUID: p0}]"
	dropped = made + ", postStop: [{name: drop, phase: Running, form: f, " + runs + "}]"
)

func TestDecide(t *testing.T) {
	for name, tt := range map[string]struct {
		status  string
		deleted bool
		pods    []*corev1.Pod
		notes   map[string]string
		allow   []string // The namespaces in which units may run.
		form    bool     // The units that are recorded were begun in their present form.
		want    string
	}{
		"a new object":                            {want: "Starting begin make: False Waiting"},
		"its unit runs":                           {status: "preCreate: [{name: make, phase: Running, " + runs + "}]", pods: []*corev1.Pod{podOf("make", -1)}, want: "Starting: False Running"},
		"its unit has succeeded":                  {status: "preCreate: [{name: make, phase: Running, " + runs + "}]", pods: []*corev1.Pod{podOf("make", 0)}, want: "Started: True Ready"},
		"its unit has failed":                     {status: "preCreate: [{name: make, phase: Running, form: x, message: m, " + runs + "}]", pods: []*corev1.Pod{podOf("make", 3)}, want: "OLMFailed in preStart: False ScriptFailed"},
		"a unit that failed has another form now": {status: "preCreate: [{name: make, phase: Failed, form: old, reason: X, attempt: 1, finished: 2026-11-24T11:00:00Z}]", want: "Starting begin make: False Waiting"},
		"a unit that failed has the same form":    {status: "preCreate: [{name: make, phase: Failed, reason: X, message: m, attempt: 1}]", form: true, want: "OLMFailed in preStart: False X"},
		"another attempt is asked for":            {status: "preCreate: [{name: make, phase: Lost, reason: X, attempt: 1, retried: before}]", notes: map[string]string{crdv1.AnnotationRetry: "now"}, want: "Starting begin make: False Waiting"},
		"it was asked for before":                 {status: "preCreate: [{name: make, phase: Lost, reason: X, attempt: 1, retried: now}]", notes: map[string]string{crdv1.AnnotationRetry: "now"}, want: "OLMFailed in preStart: False X"},
		"an attempt ended by no fault of its own": {status: "preCreate: [{name: make, phase: Pending, reason: Retrying, message: m, attempt: 1, finished: 2026-11-24T11:59:59Z}]", want: "Starting: False Waiting"},
		"its pod is gone":                         {status: "preCreate: [{name: make, phase: Running, " + runs + "}]", want: "OLMFailed in preStart: False PodGone"},
		"it may run nowhere":                      {allow: []string{"shop"}, want: "Pending: False NamespaceNotAllowed"},
		"the present form is not that which ran":  {status: "preCreate: [{name: make, phase: Succeeded, form: old, attempt: 1}]", want: "Started: True Ready"},
		"deleted before anything ran":             {deleted: true, want: "Stopped over: False Ending"},
		"deleted, and it may run nowhere":         {deleted: true, allow: []string{"shop"}, want: "Stopping over: False NamespaceNotAllowed"},
		"deleted while its unit runs":             {status: "preCreate: [{name: make, phase: Running, " + runs + "}]", pods: []*corev1.Pod{podOf("make", -1)}, deleted: true, want: "Stopping: False Ending"},
		"deleted":                                 {status: made, deleted: true, want: "Stopping begin drop: False Ending"},
		"its removal runs":                        {status: dropped, pods: []*corev1.Pod{podOf("drop", -1)}, deleted: true, want: "Stopping: False Ending"},
		"its removal waits for a quota":           {status: made + ", postStop: [{name: drop, phase: Starting, reason: Forbidden, message: m, execUnit: {namespace: n, name: x}, started: 2026-11-24T11:59:00Z}]", deleted: true, want: "Stopping begin drop: False Forbidden"},
		"its unit waits for a namespace":          {status: "preCreate: [{name: make, phase: Starting, reason: NamespaceNotFound, message: m, execUnit: {namespace: n, name: x}, started: 2026-11-24T11:59:00Z}]", want: "Starting begin make: False NamespaceNotFound"},
		"its removal is done":                     {status: dropped, pods: []*corev1.Pod{podOf("drop", 0)}, deleted: true, want: "Stopped over: False Ending"},
		"its removal has failed":                  {status: dropped, pods: []*corev1.Pod{podOf("drop", 3)}, deleted: true, want: "OLMFailed in postStop: False ScriptFailed"},
		"its removal is tried again":              {status: made + ", postStop: [{name: drop, phase: Failed, form: old, attempt: 1, retried: before}]", deleted: true, notes: map[string]string{crdv1.AnnotationRetry: "now"}, want: "Stopping begin drop: False Ending"},
		"its removal was done before":             {status: made + ", postStop: [{name: drop, phase: Succeeded, outputs: [what]}]", deleted: true, want: "Stopped over: False Ending"},
		"somebody gives up":                       {status: dropped, pods: []*corev1.Pod{podOf("drop", 3)}, deleted: true, notes: map[string]string{crdv1.AnnotationGiveUp: "true"}, want: "OLMFailed in postStop over leaves drop: False ScriptFailed"},
		"nobody gives up who does not delete":     {status: made, notes: map[string]string{crdv1.AnnotationGiveUp: "true"}, want: "Started: True Ready"},
	} {
		t.Run(name, func(t *testing.T) {
			o := object(t, tt.status, tt.deleted)
			o.Annotations = tt.notes
			if tt.form {
				o.Status.PreCreate[0].Form = engine.Form(o.Spec.PreStart[0])
			}
			in := lifecyclemethods.Input{
				Pods: tt.pods, Kept: map[string]bool{"make.url": true}, AtOnce: 10, Now: now,
				Settings: execunit.Settings{InitImage: "i", SidecarImage: "s", OperatorNamespace: "signadot", Namespaces: tt.allow, AuthorAsked: true, Deadline: time.Hour},
			}
			decide := func(o *crdv1.SignadotObjectLifecycleMethods) (any, client.Object) {
				in := in
				in.Object = o
				d := lifecyclemethods.Decide(in)
				return d, lifecyclemethods.Conclude(in, d)
			}
			d, after := decide(o)
			if got := line(d.(lifecyclemethods.Decision), after.(*crdv1.SignadotObjectLifecycleMethods)); got != tt.want {
				t.Errorf("%s\nwant %s\n%+v", got, tt.want, after.(*crdv1.SignadotObjectLifecycleMethods).Status)
			}
			fields.Row(t, crdv1.KindLifecycleMethods, o, decide)
		})
	}
}
