package execunit_test

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"switchyard.dev/workflows/execunit"
	"switchyard.dev/workflows/iocontext"
)

// giving is a unit that reads a Secret and gives an output.
const giving = `
name: make
type: ExecUnit
outputs: [{name: host}]
execUnitTemplate:
  script: "#!/bin/sh"
  outputExports: [{outputName: host, fromPath: /tmp/host}]
  podTemplate:
    spec:
      initContainers: [{name: prepare, image: "prepare:1"}]
      containers: [{name: beside, image: "beside:1"}, {name: main, image: "runner:1"}]
      volumes: [{name: s, secret: {secretName: db}}, {name: o, configMap: {name: settings, optional: true}}]
`

// Parts of the status of a pod.
const (
	onNode    = "{node: true, conditions: [{type: PodScheduled, status: 'True'}], "
	prepared  = "initContainerStatuses: [{name: prepare, state: {terminated: {exitCode: 0}}}, {name: signadot-execunit-input-manager, state: {terminated: {exitCode: 0}}}], "
	delivers  = "{name: signadot-execunit-output-manager, state: {running: {}}}"
	hasGiven  = "{name: signadot-execunit-output-manager, state: {terminated: {exitCode: 0}}}"
	killedToo = "{name: signadot-execunit-output-manager, state: {terminated: {exitCode: 137}}}"
	beside    = "{name: beside, state: {running: {}}}, "
)

// said returns a termination message.
func said(e iocontext.Ending) string {
	text, _ := json.Marshal(e)
	quoted, _ := json.Marshal(string(text))
	return string(quoted)
}

// main is the status of the main container, in the state, with those of others.
func main(state string, others ...string) string {
	return prepared + "containerStatuses: [" + beside + strings.Join(append([]string{"{name: main, state: {" + state + "}}"}, others...), ", ") + "]"
}

// ended is a main container that ended with this code.
func ended(code string, e iocontext.Ending) string {
	return "terminated: {exitCode: " + code + ", finishedAt: '2026-01-01T00:10:00Z', message: " + said(e) + "}"
}

// unlocated is a container of a pod that ended, with no record of its own end on the node.
const unlocated = "terminated: {exitCode: 137, reason: ContainerStatusUnknown}"

// located adds a field to the status of the main container.
func located(status, field string) string {
	return strings.Replace(status, "{name: main, ", "{name: main, "+field+", ", 1)
}

const deleted = "deletionTimestamp: '2026-01-01T00:05:30Z', deletionGracePeriodSeconds: 30, "

type sight struct {
	says, status string
	state        execunit.State
	reason       string
	marks        string // b: begun, o: over
	message      []string
}

func waitingSights() []sight {
	const w = execunit.Waiting
	waits := func(container, reason, message string) string {
		return onNode + "phase: Pending, initContainerStatuses: [{name: " + container + ", state: {waiting: {reason: " + reason + ", message: '" + message + "'}}}]}"
	}
	return []sight{
		{"nothing is known", "{}", w, "Starting", "", []string{"waits for a node"}},
		{"no node takes it", "{conditions: [{type: PodScheduled, status: 'False', reason: Unschedulable, message: '0/3 nodes are available: 3 Insufficient cpu. preemption: none.'}]}", w, "Unschedulable", "",
			[]string{"no node takes the pod", "0/3 nodes are available: 3 Insufficient cpu; preemption: none. Change what its template asks"}},
		{"it waits for a volume", onNode + "phase: Pending}", w, "Starting", "", []string{"is starting"}},
		{"an init container runs", onNode + "initContainerStatuses: [{name: prepare, state: {running: {}}}]}", w, "InitContainerRunning", "", []string{"is starting: its init container prepare runs"}},
		{"the manager of inputs runs", onNode + "initContainerStatuses: [{name: prepare, state: {terminated: {exitCode: 0}}}, {name: signadot-execunit-input-manager, state: {running: {}}}]}", w, "Starting", "", []string{"is starting"}},
		{"no image", waits("prepare", "ImagePullBackOff", "Back-off pulling image"), w, "ImagePullFailed", "", []string{`the image "prepare:1" of the container prepare`, "of the pod template"}},
		{"no image of the operator", waits("signadot-execunit-input-manager", "ErrImagePull", "not found"), w, "ImagePullFailed", "", []string{"the operator's chart"}},
		{"a wrong image", onNode + prepared + "containerStatuses: [{name: main, state: {waiting: {reason: InvalidImageName, message: x}}}]}", w, "ImagePullFailed", "", []string{`"runner:1"`}},
		{"a Secret for a variable", waits("prepare", "CreateContainerConfigError", `secret "db" not found`), w, "SecretMissing", "", []string{"needs the Secret signadot/db, which is not there. Create it"}},
		{"a ConfigMap for a variable", waits("prepare", "CreateContainerConfigError", `configmap "settings" not found`), w, "ConfigMapMissing", "", []string{"needs the ConfigMap signadot/settings"}},
		{"a key of a Secret", waits("prepare", "CreateContainerConfigError", `couldn''t find key k in Secret signadot/db`), w, "SecretMissing", "", []string{"needs the key k of the Secret signadot/db"}},
		{"a key of a ConfigMap", waits("prepare", "CreateContainerConfigError", `couldn''t find key k in ConfigMap signadot/db`), w, "ConfigMapMissing", "", []string{"Add it, or name another one"}},
		{"root where it may not be", waits("prepare", "CreateContainerConfigError", "container has runAsNonRoot and image will run as root"), w, "ContainerConfigRefused", "", []string{"image will run as root"}},
		{"a program that is not there", waits("prepare", "RunContainerError", "no such file"), w, "ContainerCannotStart", "", []string{"no such file."}},
		{"an image of the operator that comes late", onNode + main("running: {}", "{name: signadot-execunit-output-manager, state: {waiting: {reason: ErrImagePull}}}") + "}", execunit.Running, "ImagePullFailed", "b", nil},
	}
}

func endedSights() []sight {
	failed := ended("3", iocontext.Ending{Reason: "ScriptFailed", ExitCode: 3, Message: "the script ended with exit code 3", Tail: "one\ntwo <password>"})
	good := ended("0", iocontext.Ending{})
	refused := func(e iocontext.Ending) string {
		return "{name: signadot-execunit-output-manager, state: {terminated: {exitCode: 1, message: " + said(e) + "}}}"
	}
	return []sight{
		{"it runs", onNode + main("running: {}", delivers) + "}", execunit.Running, "", "b", nil},
		{"outputs are under way", onNode + main(good, delivers) + "}", execunit.Delivering, "", "b", nil},
		{"all is there", onNode + main(good, hasGiven) + "}", execunit.Succeeded, "", "b", nil},
		{"all is over", onNode + "phase: Succeeded, " + main(good, hasGiven) + "}", execunit.Succeeded, "", "bo", nil},
		{"it could not begin, and there is nothing to give", onNode + main(ended("127", iocontext.Ending{Reason: iocontext.VolumeFailed, Message: "no space"}), delivers) + "}",
			execunit.Failed, "VolumeFailed", "b", []string{"no space"}},
		{"it failed, and gives what there is", onNode + main(failed, delivers) + "}", execunit.Delivering, "ScriptFailed", "b", []string{"exit code 3"}},
		{"it failed", onNode + main(failed, hasGiven) + "}", execunit.Failed, "ScriptFailed", "b", []string{`step "make": the script ended with exit code 3.`, "\nIts last lines:\none\ntwo <password>"}},
		{"no interpreter", onNode + main(ended("127", iocontext.Ending{Reason: "InterpreterMissing", Message: "the image has no /bin/bash: choose another"}), hasGiven) + "}",
			execunit.Failed, "InterpreterMissing", "b", []string{"the image has no /bin/bash"}},
		{"its message has another format", onNode + main("terminated: {exitCode: 2, message: 'password: hunter2'}", delivers) + "}", execunit.Failed, "ScriptFailed", "b", []string{"exit code 2", "kubectl logs -n signadot sb-db-make-1"}},
		{"a reason that is none", onNode + main(ended("2", iocontext.Ending{Reason: "a b", Message: "m"}), hasGiven) + "}", execunit.Failed, "ScriptFailed", "b", nil},
		{"no memory", onNode + main("terminated: {exitCode: 137, reason: OOMKilled}", delivers) + "}", execunit.Failed, "OutOfMemory", "b", []string{"resources.limits.memory", "the container main"}},
		{"it cannot be started", onNode + main("terminated: {exitCode: 128, reason: StartError, message: exec format error}", delivers) + "}", execunit.Failed, "ContainerCannotStart", "", []string{"exec format error."}},
		{"an output is missing", onNode + main(good, refused(iocontext.Ending{Reason: "OutputMissing", Message: "there is no /tmp/host for output host"})) + "}",
			execunit.Failed, "OutputMissing", "b", []string{"ended with 0", "there is no /tmp/host"}},
		{"an output is too large", onNode + main(good, refused(iocontext.Ending{Reason: "OutputTooLarge", Message: "m"})) + "}", execunit.Failed, "OutputTooLarge", "b", nil},
		{"the server is away to the end", onNode + main(good, refused(iocontext.Ending{Reason: "ServerUnreachable", Message: "m"})) + "}", execunit.Interrupted, "OutputsLost", "b", []string{"not kept: m. Check its results"}},
		{"outputs are lost", onNode + "phase: Failed, " + main(good, killedToo) + "}", execunit.Interrupted, "OutputsLost", "bo", []string{"its pod ended before that"}},
		{"inputs are refused", onNode + "phase: Failed, initContainerStatuses: [{name: prepare, state: {terminated: {exitCode: 0}}}, {name: signadot-execunit-input-manager, state: {terminated: {exitCode: 1, message: " +
			said(iocontext.Ending{Reason: "VariableTooLarge", Message: "input a has 200000 bytes"}) + "}}}]}", execunit.Failed, "VariableTooLarge", "o", []string{"input a has 200000 bytes."}},
		{"inputs cannot be had", onNode + "phase: Failed, initContainerStatuses: [{name: signadot-execunit-input-manager, state: {terminated: {exitCode: 1, message: " +
			said(iocontext.Ending{Reason: "ServerUnreachable", Message: "m"}) + "}}}]}", execunit.Interrupted, "ServerUnreachable", "o", nil},
		{"an init container fails", onNode + "phase: Failed, initContainerStatuses: [{name: prepare, state: {terminated: {exitCode: 7}}}]}", execunit.Failed, "InitContainerFailed", "o", []string{"prepare of step", "exit code 7"}},
		{"it is over without a reason", onNode + "phase: Failed, initContainerStatuses: [{name: prepare, state: {terminated: {exitCode: 0}}}]}", execunit.Interrupted, "PodFailed", "o", []string{"gave no reason."}},
		{"its node refuses it", onNode + "phase: Failed, reason: SysctlForbidden, message: forbidden sysctl}", execunit.Failed, "PodFailed", "o", []string{"forbidden sysctl."}},
	}
}

func interruptedSights() []sight {
	const i = execunit.Interrupted
	killed := ended("143", iocontext.Ending{Reason: "ScriptKilled", ExitCode: 143, Message: "the script was ended by signal 15"})
	disruption := func(reason, at string) string {
		return "{node: true, conditions: [{type: DisruptionTarget, status: 'True', reason: " + reason + ", lastTransitionTime: '2026-01-01T00:" + at + ":00Z'}], "
	}
	late := "startTime: '2026-01-01T00:00:00Z', phase: Failed, reason: DeadlineExceeded, "
	return []sight{
		{"deleted before a node had it", "{" + deleted + "phase: Pending}", i, "PodDeleted", "", []string{"was deleted, before its script began. It is tried again."}},
		{"deleted while it starts", onNode + deleted + "phase: Pending}", i, "PodDeleted", "b", []string{"it is unknown how far"}},
		{"deleted before it began, as its node reports", onNode + deleted + "phase: Failed}", i, "PodDeleted", "o", []string{"before its script began"}},
		{"deleted while it runs", onNode + deleted + main("running: {}", delivers) + "}", i, "PodDeleted", "b", []string{"it is unknown how far its script was. Check its results"}},
		{"deleted, and ended by it", onNode + deleted + "phase: Failed, " + main(killed, killedToo) + "}", i, "PodDeleted", "bo", nil},
		{"deleted after it failed", onNode + strings.Replace(deleted, "00:05", "00:20", 1) + "phase: Failed, " + main(killed, hasGiven) + "}", execunit.Failed, "ScriptKilled", "bo", nil},
		{"deleted, and yet at its end", onNode + deleted + "phase: Succeeded, " + main(ended("0", iocontext.Ending{}), hasGiven) + "}", execunit.Succeeded, "", "bo", nil},
		{"deleted while outputs are under way", onNode + deleted + main(ended("0", iocontext.Ending{}), delivers) + "}", execunit.Delivering, "", "b", nil},
		{"evicted while it runs", disruption("EvictionByEvictionAPI", "05") + main("running: {}", delivers) + "}", i, "Evicted", "b", []string{"was evicted from its node"}},
		{"evicted by its node", onNode + "phase: Failed, reason: Evicted, " + main("terminated: {exitCode: 137}", killedToo) + "}", i, "Evicted", "bo", nil},
		{"preempted", disruption("PreemptionByScheduler", "05") + main(killed, killedToo) + "}", i, "Preempted", "b", []string{"make room"}},
		{"failed before it was preempted", disruption("PreemptionByScheduler", "15") + main(killed, hasGiven) + "}", execunit.Failed, "ScriptKilled", "b", nil},
		{"out of memory before it was preempted", disruption("PreemptionByScheduler", "05") + main("terminated: {exitCode: 137, reason: OOMKilled}") + "}", execunit.Failed, "OutOfMemory", "b", nil},
		{"its node was deleted", disruption("DeletionByPodGC", "05") + "phase: Failed, " + main("running: {}", delivers) + "}", i, "NodeLost", "bo", []string{"was lost with its node"}},
		{"its node was deleted before it reported anything", disruption("DeletionByPodGC", "05") + "phase: Failed}", i, "NodeLost", "bo", []string{"it is unknown"}},
		{"its node lost sight of it", onNode + "phase: Failed, " + located(main(unlocated), "containerID: 'containerd://1'") + "}", i, "NodeLost", "bo", []string{"its node did not report how"}},
		{"its node lost sight of it, and counts it", onNode + "phase: Failed, " + located(main(unlocated), "restartCount: 1") + "}", i, "NodeLost", "bo", nil},
		{"its node lost sight of it, which ran before", onNode + "phase: Failed, " + located(main(unlocated), "lastState: {terminated: {exitCode: 137}}") + "}", i, "NodeLost", "bo", nil},
		// The kubelet reports so about a container that it never created, such as for want of an image.
		{"deleted while its image is pulled", onNode + deleted + "phase: Failed, " + main(unlocated) + "}", i, "PodDeleted", "o", []string{"before its script began. It is tried again"}},
		{"its node reports only that it is over", onNode + "phase: Failed, " + main("running: {}") + "}", i, "NodeLost", "bo", nil},
		{"its node shuts down", onNode + "phase: Failed, reason: Terminated, " + main("terminated: {exitCode: 143}") + "}", i, "NodeLost", "bo", nil},
		{"its node has no room", onNode + "phase: Failed, reason: OutOfcpu}", i, "PodRejected", "o", []string{"no room for it, before its script began"}},
		{"too late", onNode + late + main("terminated: {exitCode: 137, finishedAt: '2026-01-01T00:30:00Z'}", killedToo) + "}", execunit.Failed, "DeadlineExceeded", "bo", []string{"for longer than the 1200 seconds", "Check its results so far", "workflows.unitDeadline"}},
		{"too late to begin", onNode + late + "initContainerStatuses: []}", execunit.Failed, "DeadlineExceeded", "o", []string{"had not begun"}},
		{"failed before it was too late", onNode + late + main(killed, hasGiven) + "}", execunit.Failed, "ScriptKilled", "bo", nil},
		{"too late for its outputs", onNode + late + main(ended("0", iocontext.Ending{}), killedToo) + "}", i, "OutputsLost", "bo", nil},
	}
}

// observed parses the status of a pod of a unit, and observes it.
func observed(t *testing.T, s sight) execunit.Observation {
	t.Helper()
	u := unit(t, giving)
	pod := execunit.Pod(u, identity, settings)
	pod.Spec.ActiveDeadlineSeconds = new(int64(1200))
	var more struct {
		corev1.PodStatus `json:",inline"`
		Node             bool   `json:"node"`
		Deletion         any    `json:"deletionTimestamp"`
		Grace            *int64 `json:"deletionGracePeriodSeconds"`
	}
	if err := yaml.UnmarshalStrict([]byte(s.status), &more); err != nil {
		t.Fatalf("%v\n%s", err, s.status)
	}
	if pod.Status = more.PodStatus; more.Node {
		pod.Spec.NodeName = "node"
	}
	if more.Deletion != nil {
		text, err := yaml.Marshal(map[string]any{"deletionTimestamp": more.Deletion, "deletionGracePeriodSeconds": more.Grace})
		if err == nil {
			err = yaml.Unmarshal(text, &pod.ObjectMeta)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return execunit.Observe(execunit.ObservedOf(u, pod), pod)
}

// TestContainersThatAskTheServer are the containers that a step waits for.
func TestContainersThatAskTheServer(t *testing.T) {
	good := ended("0", iocontext.Ending{})
	asksForInputs := onNode + "phase: Pending, initContainerStatuses: [{name: prepare, state: {terminated: {exitCode: 0}}}, {name: signadot-execunit-input-manager, state: {running: {startedAt: '2026-01-01T00:10:00Z'}}}]}"
	for _, tt := range []struct {
		name, status, reason string
		message              []string
	}{
		{"outputs", onNode + main(good, delivers) + "}", execunit.ReasonOutputsUndelivered, []string{
			`the script of step "make" has ended; its outputs cannot be delivered: cannot reach io-context-server`, "kubectl logs -n signadot sb-db-make-1-random -c signadot-execunit-output-manager"}},
		{"outputs of a script that failed", onNode + main(ended("3", iocontext.Ending{Reason: "ScriptFailed", ExitCode: 3}), delivers) + "}", execunit.ReasonOutputsUndelivered, nil},
		{"inputs", asksForInputs, execunit.ReasonInputsUndelivered, []string{"has not begun; its inputs cannot be delivered: cannot reach io-context-server", "-c signadot-execunit-input-manager"}},
		{"volumes", "{node: true, conditions: [{type: PodScheduled, status: 'True', lastTransitionTime: '2026-01-01T00:10:00Z'}], phase: Pending}", execunit.ReasonVolumesPending, []string{"Secret db. If it stays so", "namespace signadot"}},
		{"all is there", onNode + main(good, hasGiven) + "}", "", nil},
		{"it runs", onNode + main("running: {}", delivers) + "}", "", nil},
		{"it waits", "{}", "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			asking := observed(t, sight{status: tt.status}).Asking
			if asking == nil != (tt.reason == "") {
				t.Fatalf("asking is %+v", asking)
			}
			if asking == nil {
				return
			}
			if at := asking.Since.UTC().Format("15:04"); asking.Reason != tt.reason || at != "00:10" {
				t.Errorf("%s since %s", asking.Reason, at)
			}
			for _, m := range tt.message {
				if !strings.Contains(asking.Message, m) {
					t.Errorf("%q is not in %q", m, asking.Message)
				}
			}
		})
	}
}

func TestObservations(t *testing.T) {
	for _, all := range [][]sight{waitingSights(), endedSights(), interruptedSights()} {
		for _, s := range all {
			t.Run(s.says, func(t *testing.T) {
				o := observed(t, s)
				marks := map[bool]string{true: "b"}[o.Begun] + map[bool]string{true: "o"}[o.Over]
				if o.State != s.state || o.Reason != s.reason || marks != s.marks {
					t.Errorf("%s %s %q, want %s %s %q: %s", o.State, o.Reason, marks, s.state, s.reason, s.marks, o.Message)
				}
				for _, m := range s.message {
					if !strings.Contains(o.Message, m) {
						t.Errorf("%q is not in %q", m, o.Message)
					}
				}
				first, _, _ := strings.Cut(o.Message, "\n")
				if n := len(sentences.FindAllString(first, -1)); n > 2 || strings.Contains(o.Message, "hunter2") || (o.Reason == "") != (o.Message == "") {
					t.Errorf("%d sentences: %s", n, o.Message)
				}
			})
		}
	}
}

// A unit without outputs has nothing that could be lost.
func TestAUnitWithoutOutputsLosesNone(t *testing.T) {
	u := unit(t, plain)
	pod := execunit.Pod(u, identity, settings)
	pod.Status.Phase = corev1.PodFailed
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{
		{Name: "main", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}},
		{Name: execunit.OutputManager, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137}}},
	}
	if o := execunit.Observe(execunit.ObservedOf(u, pod), pod); o.State != execunit.Succeeded {
		t.Errorf("%+v", o)
	}
}

func TestLongTextsAreCut(t *testing.T) {
	long := strings.Repeat("ü", 4000)
	for _, text := range []string{long, said(iocontext.Ending{Message: long, Tail: long, Reason: strings.Repeat("A", 4000)})} {
		s := sight{status: onNode + main("terminated: {exitCode: 1, message: "+text+"}", hasGiven) + "}"}
		if o := observed(t, s); len(o.Message) > 2048 || len(o.Reason) > 64 {
			t.Errorf("%d bytes, %s", len(o.Message), o.Reason)
		}
	}
}
