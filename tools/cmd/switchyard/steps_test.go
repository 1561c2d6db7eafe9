package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/wait"
)

// stepsResource is a resource of three steps that make it and one that removes it.
const stepsResource = `
metadata:
  name: NAME
  labels: {signadot.com/sandbox: SANDBOX}
  finalizers: [example.com/held]
spec:
  name: db
  pluginName: postgres@1.0.0
  olm:
    preStart:
    - name: grant
      type: ExecUnit
      inputs: [{name: host, iocontext: {key: seed.rows}}]
    - name: make
      type: ExecUnit
      outputs: [{name: host}, {name: password}]
    - name: seed
      type: ExecUnit
      inputs: [{name: host, iocontext: {key: make.host}}]
      outputs: [{name: rows}]
    postStop:
    - name: drop
      type: ExecUnit
      inputs: [{name: host, iocontext: {key: make.host}}]
`

// resource makes one, whose status a test writes as the operator would.
func (d desk) resource(name, sandbox string) *crdv1.Resource {
	d.Helper()
	r := &crdv1.Resource{}
	d.Make(r, strings.NewReplacer("NAME", name, "SANDBOX", sandbox).Replace(stepsResource))
	return r
}

// is writes how far a resource is.
func (d desk) is(r *crdv1.Resource, reason, message string, create, remove []crdv1.WorkUnitStatus) {
	d.Helper()
	d.Get(r)
	ready := map[bool]string{true: "True", false: "False"}[reason == "Ready"]
	r.Status.Conditions = []crdv1.StatusCondition{{Type: crdv1.ConditionReady, Status: ready, Reason: reason, Message: message, ObservedGeneration: r.Generation}}
	r.Status.Create, r.Status.Delete, r.Status.OLMName = create, remove, r.Name
	d.Must(d.Client.Status().Update(context.Background(), r))
}

// release takes the finalizer off a resource, as the operator does.
func (d desk) release(r *crdv1.Resource) {
	d.Get(r)
	r.Finalizers = nil
	d.Must(d.Client.Update(context.Background(), r))
	d.Gone(r)
}

// unit returns the status of a step that began at noon and took so many seconds.
func unit(name, phase string, seconds int, change func(*crdv1.WorkUnitStatus)) crdv1.WorkUnitStatus {
	noon := metav1.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	end := metav1.NewTime(noon.Add(time.Duration(seconds) * time.Second))
	u := crdv1.WorkUnitStatus{Name: name, Phase: phase, Attempt: 1, Started: &noon, Finished: &end, ExecUnit: &crdv1.NamespacedName{Namespace: "ns", Name: "pod-" + name}}
	if change != nil {
		change(&u)
	}
	return u
}

func TestAResourceIsShownAsAGraph(t *testing.T) {
	d := newDesk(t, "steps-operator")
	r := d.resource("graph-db", "graph")
	get := []string{"resource", "get", "graph-db"}
	if out := d.does(t, exit.OK, "Status:    not ready (Pending): the operator has not reported on it yet", get...); strings.Contains(out, "To do") {
		t.Error(out)
	}
	make := unit("make", "Succeeded", 4, func(u *crdv1.WorkUnitStatus) { u.Outputs = []string{"host", "password"} })
	seed := unit("seed", "Failed", 62, func(u *crdv1.WorkUnitStatus) {
		u.Attempt, u.Reason, u.Message = 2, "ScriptFailed", "The script ended with 3.\nIts last lines: no table <rows>"
	})
	d.is(r, "StepFailed", "Step seed failed.", []crdv1.WorkUnitStatus{make, seed}, nil)
	out := d.does(t, exit.OK, "", get...)
	want := `Name:      graph-db
Resource:  db of sandbox graph
Plugin:    postgres@1.0.0
Created:   CREATED
Status:    not ready (StepFailed): Step seed failed.

Create
  STEP       PHASE      ATTEMPT  TIME  WAITS FOR  OUTPUTS         POD
  make       Succeeded  1        4s    -          host, password  ns/pod-make
    seed     Failed     2        1m2s  make       -               ns/pod-seed
      ScriptFailed: The script ended with 3.
      Its last lines: no table <rows>
      grant  Pending    -        -     seed       -               -

Delete
  STEP  PHASE    ATTEMPT  TIME  WAITS FOR  OUTPUTS  POD
  drop  Pending  -        -     -          -        -

To do
  See what step seed wrote: kubectl switchyard logs --sandbox graph --resource db --step seed
  If the cause is outside of the script, run it again: kubectl switchyard resource retry graph-db
  If the script is the cause, apply the next version of the plugin (kubectl switchyard resourceplugin apply), and sandbox graph with that version
`
	out = strings.ReplaceAll(out, r.CreationTimestamp.Local().Format("2006-01-02 15:04:05 MST"), "CREATED")
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if same := d.does(t, exit.OK, "", "resource", "get", "db", "--sandbox", "graph"); same != d.does(t, exit.OK, "", "resource", "get", "graph/db") || !strings.Contains(same, "Name:      graph-db") {
		t.Error(same)
	}
	var got struct {
		Sandbox string
		Create  []struct {
			Name, Phase string
			WaitsFor    []string
			Seconds     *float64
			Outputs     []string
		}
		ToDo []string
	}
	d.Must(json.Unmarshal([]byte(d.does(t, exit.OK, "", append(get, "-o", "json")...)), &got))
	if got.Sandbox != "graph" || len(got.Create) != 3 || got.Create[1].Name != "seed" || *got.Create[1].Seconds != 62 || got.Create[2].Seconds != nil || len(got.ToDo) != 3 {
		t.Errorf("%+v", got)
	}
	d.does(t, exit.OK, "graph-db  graph    db        postgres@1.0.0  not ready (StepFailed)  1 of 3", "resource", "list", "--sandbox", "graph")
	d.does(t, exit.OK, "no resources", "resource", "list", "--sandbox", "nobodys")
	d.does(t, exit.No, "there is no resource object nothing; name the sandbox too", "resource", "get", "nothing")
	d.does(t, exit.No, "sandbox graph has no resource queue; it has db", "resource", "get", "queue", "--sandbox", "graph")
	d.does(t, exit.No, "there is no sandbox nobodys", "resource", "get", "nobodys/db")

	running := unit("seed", "Running", 0, func(u *crdv1.WorkUnitStatus) { u.Finished = nil })
	d.is(r, "Pending", "Step seed runs.", []crdv1.WorkUnitStatus{make, running}, nil)
	d.does(t, exit.OK, "Follow step seed: kubectl switchyard logs --sandbox graph --resource db --step seed -f", get...)
	d.does(t, exit.OK, " so far", get...)
	d.release(d.deleted(r))
}

// deleted deletes a resource that its finalizer holds.
func (d desk) deleted(r *crdv1.Resource) *crdv1.Resource {
	d.Must(d.Client.Delete(context.Background(), r))
	return r
}

const mendedPlugin = `
name: postgres@1.0.1
spec:
  runner: {image: "psql:2"}
  create:
  - name: make
    script: "#!/bin/sh"
    outputs: [{name: host, valueFromPath: /tmp/host}]
  delete:
  - name: drop
    inputs: [{name: host, valueFromStep: {name: make, output: host}}]
    script: |
      #!/bin/sh
      mended
`

func TestStepsAreRetriedAndGivenUp(t *testing.T) {
	d := newDesk(t, "ask-operator")
	r := d.resource("ask-db", "ask")
	annotation := func(key string) string {
		d.Get(r)
		return r.Annotations[key]
	}
	d.does(t, exit.OK, "no step of it has failed or is lost, so that nothing may come of it", "resource", "retry", "ask-db")
	first := annotation(crdv1.AnnotationRetry)
	d.is(r, "StepFailed", "no", []crdv1.WorkUnitStatus{unit("make", "Lost", 1, nil)}, nil)
	d.does(t, exit.OK, "It is not known whether the script of step make ended", "resource", "get", "ask-db")
	d.does(t, exit.OK, "resource ask-db is asked to run again: make", "resource", "retry", "db", "--sandbox", "ask")
	second := annotation(crdv1.AnnotationRetry)
	if _, err := time.Parse(time.RFC3339Nano, second); err != nil || second == first {
		t.Errorf("asked with %q, and before with %q: %v", second, first, err)
	}
	d.does(t, exit.No, "resource ask-db is not being deleted, so nothing was written: give the plugin its next version", "resource", "retry", "ask-db", "--with", d.write("early.yaml", mendedPlugin))
	d.does(t, exit.No, "resource ask-db is not being deleted: delete sandbox ask first", "resource", "give-up", "ask-db")
	if annotation(crdv1.AnnotationGiveUp) != "" {
		t.Error("it was given up nevertheless")
	}
	d.deleted(r)
	d.is(r, "StepFailed", "no", []crdv1.WorkUnitStatus{unit("make", "Succeeded", 1, nil)},
		[]crdv1.WorkUnitStatus{unit("drop", "Failed", 1, func(u *crdv1.WorkUnitStatus) { u.ExecUnit = nil; u.Reason = "MissingSecret" })})
	out := d.does(t, exit.OK, "being deleted (StepFailed)", "resource", "get", "ask-db")
	for _, line := range []string{"Step drop never ran: correct the cause in its message.", "resource retry ask-db", "Or release the resource without its delete steps; objects that they delete may remain: kubectl switchyard resource give-up ask-db"} {
		if !strings.Contains(out, line) {
			t.Errorf("without %q:\n%s", line, out)
		}
	}

	// Mended delete steps take the place of those that failed.
	plugin := d.write("mended.yaml", mendedPlugin)
	d.does(t, exit.Usage, `mysql.yaml:2: name is "mysql", and resource db is of plugin postgres@1.0.0`, "resource", "retry", "ask-db", "--with", d.write("mysql.yaml", strings.Replace(mendedPlugin, "postgres@1.0.1", "mysql", 1)))
	before := annotation(crdv1.AnnotationRetry)
	d.does(t, exit.OK, "resource ask-db has the delete steps of postgres@1.0.1, of which those that have not succeeded run: drop", "resource", "retry", "db", "--sandbox", "ask", "--with", plugin)
	if annotation(crdv1.AnnotationRetry) == before || len(r.Spec.OLM.PreStart) != 3 || len(r.Spec.OLM.PostStop) != 1 || r.Spec.OLM.PostStop[0].ExecUnitTemplate.Script != "#!/bin/sh\nmended\n" {
		t.Errorf("%+v", r.Spec.OLM)
	}
	for _, m := range r.ManagedFields {
		if m.Manager == "switchyard" && strings.Contains(string(m.FieldsV1.Raw), "postStop") {
			t.Error("written as the operator writes")
		}
	}
	d.does(t, exit.OK, "resource ask-db is let go; objects that these steps delete may remain: drop", "resource", "give-up", "ask-db")
	if annotation(crdv1.AnnotationGiveUp) != "true" {
		t.Error("it was not given up")
	}
	d.release(r)
}

// Steps that wait have a next command, and give-up is named where only it can end the waiting.
func TestStepsThatWaitHaveANextCommand(t *testing.T) {
	d := newDesk(t, "wait-operator")
	r := d.resource("wait-db", "wait")
	waiting := func(phase, reason string) []crdv1.WorkUnitStatus {
		return []crdv1.WorkUnitStatus{unit("make", phase, 1, func(u *crdv1.WorkUnitStatus) { u.Reason, u.Message, u.Finished = reason, "It waits.", nil })}
	}
	made := []crdv1.WorkUnitStatus{unit("make", "Succeeded", 1, nil)}
	cases := []struct{ phase, reason, wants string }{
		{"Starting", "NamespaceNotFound", "Create the namespace of step make: kubectl create namespace ns"},
		{"Starting", "NamespaceTerminating", "Once namespace ns is deleted, create it again for step make: kubectl create namespace ns"},
		{"Starting", "Forbidden", "See what limits the pods of step make: kubectl describe resourcequota,limitrange -n ns"},
		{"Running", "Unschedulable", "See why the pod of step make does not start: kubectl describe pod -n ns pod-make"},
		{"Running", "Starting", "Follow step make: kubectl switchyard logs --sandbox wait --resource db --step make -f"},
	}
	for _, c := range cases {
		d.is(r, c.reason, "no", waiting(c.phase, c.reason), nil)
		if out := d.does(t, exit.OK, c.wants, "resource", "get", "wait-db"); strings.Contains(out, "give-up") || strings.Contains(out, "resource retry") {
			t.Errorf("%s: nothing is to be tried again or given up:\n%s", c.reason, out)
		}
	}
	d.is(r, "Forbidden", "no", []crdv1.WorkUnitStatus{unit("make", "Starting", 1, func(u *crdv1.WorkUnitStatus) {
		u.Reason, u.Message, u.Finished = "Forbidden", `The API server refuses the pod (error looking up service account ns/maker: serviceaccount "maker" not found).`, nil
	})}, nil)
	if out := d.does(t, exit.OK, "Create the service account that step make needs, or name another one in the plugin: kubectl create serviceaccount NAME -n ns", "resource", "get", "wait-db"); strings.Contains(out, "quota") {
		t.Errorf("no quota is the cause:\n%s", out)
	}
	d.is(r, "OutputMissing", "no", []crdv1.WorkUnitStatus{unit("make", "Succeeded", 1, nil)}, nil)
	d.does(t, exit.OK, "Delete the resource with its data; the sandbox creates it again: kubectl delete resource wait-db", "resource", "get", "wait-db")
	d.deleted(r)
	const letGo = "Or release the resource without its delete steps; objects that they delete may remain: kubectl switchyard resource give-up wait-db"
	for _, c := range cases[:4] {
		left := waiting(c.phase, c.reason)
		left[0].Name = "drop"
		d.is(r, c.reason, "no", made, left)
		if out := d.does(t, exit.OK, letGo, "resource", "get", "wait-db"); !strings.Contains(out, strings.ReplaceAll(strings.ReplaceAll(c.wants, "step make", "step drop"), "pod-drop", "pod-make")) {
			t.Errorf("%s: without %q:\n%s", c.reason, c.wants, out)
		}
	}
	d.is(r, "InputMissing", "no", made, []crdv1.WorkUnitStatus{unit("drop", "Failed", 1, func(u *crdv1.WorkUnitStatus) { u.ExecUnit = nil; u.Reason = "InputMissing" })})
	if out := d.does(t, exit.OK, letGo, "resource", "get", "wait-db"); !strings.Contains(out, "Step drop cannot run, because an earlier step has not produced its input") ||
		!strings.Contains(out, "Or run delete steps without that input: kubectl switchyard resource retry wait-db --with plugin.yaml") || strings.Contains(out, "run it again") {
		t.Errorf("another attempt has no input either, and other steps need none:\n%s", out)
	}
	d.release(r)
}

// logging is the part of a kubelet that has the logs of containers: each writes the names of
// its pod and itself in two lines, the second one when the test says so.
// asked counts how often it was asked.
func logging(t *testing.T, second <-chan struct{}, asked *atomic.Int32) int32 {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/containerLogs/"), "/")
		_, _ = fmt.Fprintf(w, "begins %s in %s\n", parts[1], parts[2])
		if r.URL.Query().Get("follow") == "true" {
			w.(http.Flusher).Flush()
			<-second
		}
		_, _ = io.WriteString(w, "ends without a new line")
	}))
	t.Cleanup(s.Close)
	return int32(s.Listener.Addr().(*net.TCPAddr).Port)
}

// running makes the pod of a step on the node of a kubelet, whose containers are in a state.
func (d desk) running(namespace, name string, state corev1.ContainerState, labels map[string]string) {
	d.Helper()
	d.RunPod(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec: corev1.PodSpec{NodeName: namespace, AutomountServiceAccountToken: new(false),
			Containers: []corev1.Container{{Name: "signadot-execunit-output-manager", Image: "x"}, {Name: "main", Image: "x"}}},
	}, corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "main", State: state}}})
}

func TestTheLogsOfStepsAreFollowed(t *testing.T) {
	d := newDesk(t, "logs-operator")
	second := make(chan struct{})
	var asked atomic.Int32
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "logs-operator"}}
	d.Create(node)
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = logging(t, second, &asked)
	d.Must(d.Client.Status().Update(t.Context(), node))
	r := d.resource("logs-db", "logs")
	at := func(name string) func(*crdv1.WorkUnitStatus) {
		return func(u *crdv1.WorkUnitStatus) {
			u.ExecUnit = &crdv1.NamespacedName{Namespace: "logs-operator", Name: name}
		}
	}
	whole := []string{"logs", "--sandbox", "logs", "--resource", "db"}
	d.does(t, exit.Usage, "give --resource, and --sandbox", "logs")
	d.does(t, exit.No, "no step of resource logs-db has a pod; see kubectl switchyard resource get logs-db", whole...)
	d.does(t, exit.No, "resource logs-db has no step sow; it has make, seed, grant, drop", append(whole, "--step", "sow")...)
	d.does(t, exit.No, "step seed has no pod (Pending)", append(whole, "--step", "seed")...)

	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	d.running("logs-operator", "logs-make", ended, nil)
	made, gone := unit("make", "Succeeded", 1, at("logs-make")), unit("seed", "Failed", 1, at("logs-gone"))
	d.is(r, "StepFailed", "no", []crdv1.WorkUnitStatus{made, gone}, nil)
	if out := d.does(t, exit.OK, "step seed: its pod logs-operator/logs-gone was deleted, so its log is not available", whole...); out != "make | begins logs-make in main\nmake | ends without a new line\n" {
		t.Error(out)
	}
	if out := d.does(t, exit.OK, "", append(whole, "--step", "make")...); out != "begins logs-make in main\nends without a new line" {
		t.Error(out)
	}

	// A step whose status names no pod is found by its labels; it has not begun at first.
	labels := map[string]string{crdv1.LabelLifecycle: "logs-db", crdv1.LabelUnit: "seed"}
	d.running("logs-operator", "logs-seed", corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}}, labels)
	seeding := unit("seed", "Running", 1, func(u *crdv1.WorkUnitStatus) { u.ExecUnit, u.Finished = nil, nil })
	d.is(r, "Pending", "it runs", []crdv1.WorkUnitStatus{made, seeding}, nil)
	d.does(t, exit.OK, "step seed: its pod logs-operator/logs-seed has not begun (ImagePullBackOff: no such image)", whole...)
	followed := make(chan string)
	go func() { followed <- d.does(t, exit.OK, "", append(whole, "-f")...) }()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "logs-operator", Name: "logs-seed"}}
	d.Get(p)
	p.Status.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	d.Must(d.Client.Status().Update(t.Context(), p))
	d.running("logs-operator", "logs-grant", ended, nil)
	d.is(r, "Ready", "it is there", []crdv1.WorkUnitStatus{made, unit("seed", "Succeeded", 1, at("logs-seed")), unit("grant", "Succeeded", 1, at("logs-grant"))}, nil)
	close(second)
	out := <-followed
	for _, line := range []string{"make | begins logs-make in main\n", "seed | begins logs-seed in main\n", "grant | begins logs-grant in main\n", "grant | ends without a new line\n"} {
		if strings.Count(out, line) != 1 {
			t.Errorf("not once %q:\n%s", line, out)
		}
	}

	// It ends with its resource.
	d.is(r, "Pending", "it runs", []crdv1.WorkUnitStatus{made, seeding}, nil)
	before := asked.Load()
	go func() { followed <- d.does(t, exit.OK, "", append(whole, "-f")...) }()
	wait.Holds(t, "it is followed", func() bool { return asked.Load() > before })
	d.release(d.deleted(r))
	wait.Holds(t, "following ends with the resource", func() bool {
		select {
		case <-followed:
			return true
		default:
			return false
		}
	})
}
