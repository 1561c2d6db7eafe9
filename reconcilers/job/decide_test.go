package job_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	crdv1 "switchyard.dev/protos/crd/v1"
	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/reconcilers/job"
	"switchyard.dev/tests/fields"
	"switchyard.dev/workflows/jobs"
)

var now = time.Date(2026, 11, 30, 8, 0, 20, 0, time.UTC)

// full has all fields of the spec.
const full = `{runnerGroup: {namespace: shop, name: tests}, content: {script: "#!/bin/sh\necho"}, env: [{name: A, value: b}], timeout: 5m, canceled: false,
  artifacts: [{path: /tmp/a, meta: {k: v}}], routingContext: {sandboxName: sb}, trafficManager: {enabled: true, injectRoutingKey: Auto}}`

// read reads an object from YAML.
func read[T any](t testing.TB, text string) *T {
	t.Helper()
	o := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), o); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return o
}

// podOf returns a pod of the group that is ready, with the job of this UID.
func podOf(t testing.TB, name, job string) *corev1.Pod {
	p := read[corev1.Pod](t, "metadata: {namespace: shop, name: "+name+", uid: "+name+", labels: {signadot.com/jobrunnergroup-version: v1}}\n"+
		"spec: {containers: [{name: main}]}\n"+
		"status: {podIP: 10.0.0.1, conditions: [{type: Ready, status: \"True\"}], containerStatuses: [{name: main, containerID: c-"+name+", state: {running: {}}}]}")
	if job != "" {
		p.Labels[crdv1.AssignedJobLabel] = job
	}
	return p
}

// lineOf is a decision in one line.
func lineOf(d job.Decision) string {
	var out []string
	for _, g := range d.Give {
		out = append(out, fmt.Sprintf("give %s %s", g.Pod.Name, g.Job.UID))
	}
	for _, f := range d.Free {
		out = append(out, strings.TrimSpace(fmt.Sprintf("free %s %s%s", f.Pod.Name, f.Drain, map[bool]string{true: " kept"}[f.Kept])))
	}
	for _, s := range d.Steps {
		if s.Queued && s.State != nil && s.State.Waiting != nil {
			out = append(out, "waits "+s.State.Waiting.Reason)
		}
	}
	for _, j := range d.Expired {
		out = append(out, "delete "+string(j.UID))
	}
	for _, p := range d.Released {
		out = append(out, "released "+p.Name)
	}
	for _, uid := range d.Unknown {
		out = append(out, "ask "+string(uid))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

const (
	runs = "execution: {count: 1, podUID: p1, begun: true}, runner: {runnerPod: {namespace: shop, name: p1}}, state: {running: {}}"
	over = "execution: {count: 1, podUID: p1, begun: true, output: {state: Kept}}, runner: {runnerPod: {namespace: shop, name: p1}}, state: {terminated: {success: true, finishedAt: 2026-11-30T08:00:10Z}}"
	lost = "execution: {count: 1, podUID: p1, begun: true, output: {state: Lost}}, state: {terminated: {reason: PodLost, finishedAt: 2026-11-30T08:00:10Z}}"
	// ended is the status of a job that never had a pod.
	ended = "state: {terminated: {reason: Canceled, finishedAt: 2026-11-30T08:00:10Z}}"
)

func TestDecide(t *testing.T) {
	pods := func(all ...*corev1.Pod) []*corev1.Pod { return all }
	for name, tt := range map[string]struct {
		// statuses are those of jobs j1, j2, …
		statuses []string
		pods     []*corev1.Pod
		group    string
		absent   []types.UID
		limits   job.Limits
		// numbered: a control plane manages the jobs.
		numbered bool
		want     string
	}{
		"nothing":                               {pods: pods(podOf(t, "p1", ""))},
		"a job and a pod":                       {statuses: []string{""}, pods: pods(podOf(t, "p1", "")), want: "give p1 j1"},
		"no pod":                                {statuses: []string{""}, want: "waits PodsNotReady"},
		"no pods are asked for":                 {statuses: []string{""}, group: "spec: {image: i, replicas: 0}", want: "waits NoPods"},
		"pods do not start":                     {statuses: []string{""}, group: `status: {conditions: [{type: Ready, status: "False", reason: QuotaExceeded, message: m}]}`, want: "waits QuotaExceeded"},
		"the group is full":                     {statuses: []string{runs, ""}, pods: pods(podOf(t, "p1", "j1")), want: "waits NoIdlePod"},
		"the pod of a job that runs":            {statuses: []string{runs}, pods: pods(podOf(t, "p1", "j1"))},
		"the pod of a job that has ended":       {statuses: []string{over}, pods: pods(podOf(t, "p1", "j1")), want: "free p1  kept"},
		"the next job":                          {statuses: []string{over, ""}, pods: pods(podOf(t, "p1", "j1")), want: "give p1 j2"},
		"the next job has the label already":    {statuses: []string{over, ""}, pods: pods(podOf(t, "p1", "j2")), want: "give p1 j2"},
		"… before the outcome is recorded":      {statuses: []string{runs, ""}, pods: pods(podOf(t, "p1", "j2")), want: "waits NoIdlePod"},
		"… and does not need the pod":           {statuses: []string{runs, ended}, pods: pods(podOf(t, "p1", "j2"))},
		"a label was removed while a job runs":  {statuses: []string{runs, ""}, pods: pods(podOf(t, "p1", "")), want: "waits NoIdlePod"},
		"an idle pod comes before one freed":    {statuses: []string{over, ""}, pods: pods(podOf(t, "p1", "j1"), podOf(t, "p2", "")), want: "free p1  kept, give p2 j2"},
		"a pod is not reused":                   {statuses: []string{over, ""}, group: "spec: {image: i, reusePods: false}", pods: pods(podOf(t, "p1", "j1")), want: "free p1 JobEnded kept, waits NoIdlePod"},
		"a pod that a dead scheduler chose":     {statuses: []string{"", ""}, pods: pods(podOf(t, "p1", "j2")), want: "give p1 j2, waits NoIdlePod"},
		"two pods that it chose for one job":    {statuses: []string{""}, pods: pods(podOf(t, "p1", "j1"), podOf(t, "p2", "j1")), want: "free p2, give p1 j1"},
		"a pod it chose beside that which runs": {statuses: []string{runs}, pods: pods(podOf(t, "p1", "j1"), podOf(t, "p2", "j1")), want: "free p2"},
		"a job that is not known":               {pods: pods(podOf(t, "p1", "x")), want: "ask x"},
		"a job that does not exist":             {pods: pods(podOf(t, "p1", "x")), absent: []types.UID{"x"}, want: "free p1"},
		"a pod that drains":                     {statuses: []string{""}, pods: pods(with(podOf(t, "p1", ""), func(p *corev1.Pod) { p.Annotations = map[string]string{crdv1.AnnotationDraining: "x"} })), want: "waits NoIdlePod"},
		"a pod that is being deleted":           {statuses: []string{""}, pods: pods(with(podOf(t, "p1", ""), func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} })), want: "waits PodsNotReady"},
		"a pod that is not ready":               {statuses: []string{""}, pods: pods(with(podOf(t, "p1", ""), func(p *corev1.Pod) { p.Status.Conditions = nil })), want: "waits PodsNotReady"},
		"a pod with a container that is down":   {statuses: []string{""}, pods: pods(with(podOf(t, "p1", ""), func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State.Running = nil })), want: "waits NoIdlePod"},
		"a pod that keeps results":              {statuses: []string{over}, pods: pods(with(podOf(t, "p1", ""), keeps))},
		"a pod with results that were read":     {statuses: []string{strings.Replace(over, "Kept", "Released", 1)}, pods: pods(with(podOf(t, "p1", ""), keeps)), want: "released p1"},
		"old jobs":                              {statuses: []string{over, strings.Replace(over, "08:00:10", "07:00:20", 1)}, limits: job.Limits{Keep: time.Hour, Most: 9}, want: "delete j2"},
		"too many jobs":                         {statuses: []string{strings.Replace(over, "Kept", "Released", 1), over}, limits: job.Limits{Keep: time.Hour, Most: 1}, want: "delete j2"},
		"too many jobs with results":            {statuses: []string{over, over}, limits: job.Limits{Keep: time.Hour, Most: 1, Unread: time.Minute}},
		"… a control plane may not know them":   {statuses: []string{over, ended, lost}, numbered: true, limits: job.Limits{Keep: time.Second, Most: 1}},
		"… for longer than it writes again":     {statuses: []string{strings.Replace(over, "2026-11-30T08", "2026-11-29T20", 1)}, numbered: true, limits: job.Limits{Keep: time.Second, Most: 1}},
		"… but not for ever":                    {statuses: []string{strings.Replace(over, "2026-11-30T08", "2026-11-29T19", 1)}, numbered: true, limits: job.Limits{Keep: time.Second, Most: 1}, want: "delete j1"},
		"… more than it has in a cluster":       {statuses: slices.Repeat([]string{strings.Replace(over, "08:00:10", "07:45:20", 1)}, 2001), numbered: true, limits: job.Limits{Keep: time.Second, Most: 1}, want: "delete j999"},
		"… more, not much later":                {statuses: slices.Repeat([]string{over}, 2001), numbered: true, limits: job.Limits{Keep: time.Second, Most: 1}},
		"… it has collected their output":       {statuses: []string{strings.Replace(over, "Kept", "Released", 1), over}, numbered: true, limits: job.Limits{Keep: time.Hour}, want: "delete j1"},
	} {
		t.Run(name, func(t *testing.T) {
			group := tt.group
			if group == "" {
				group = "spec: {image: i, reusePods: true}"
			}
			if tt.limits == (job.Limits{}) {
				tt.limits = job.Defaults
			}
			in := job.Input{Group: read[crdv1.JobRunnerGroup](t, "metadata: {namespace: shop, name: tests}\n"+group), Pods: tt.pods, Limits: tt.limits, Turns: jobs.Turns{}, Now: now, Absent: map[types.UID]bool{}}
			for _, uid := range tt.absent {
				in.Absent[uid] = true
			}
			for i, status := range tt.statuses {
				j := read[crdv1.Job](t, fmt.Sprintf("metadata: {name: j%d, uid: j%d}\nspec: {runnerGroup: {namespace: shop, name: tests}, content: {command: [x]}}\nstatus: {%s}", i+1, i+1, status))
				if tt.numbered {
					j.Annotations = map[string]string{crdv1.AnnotationJobSequence: fmt.Sprint(i + 1)}
				}
				in.Jobs = append(in.Jobs, jobs.Input{Job: j, Group: in.Group, Now: now})
			}
			if got := lineOf(job.Decide(in)); got != tt.want {
				t.Errorf("%s\nwant %s", got, tt.want)
			}
		})
	}
}

func keeps(p *corev1.Pod) {
	p.Annotations = map[string]string{crdv1.AnnotationDraining: "x", crdv1.AnnotationJobResults: crdv1.JobResultsKept}
}

func with(p *corev1.Pod, change func(*corev1.Pod)) *corev1.Pod {
	change(p)
	return p
}

// The turn of a submitter is forgotten with the last job of that one.
func TestTurnsEndWithTheJobs(t *testing.T) {
	j := read[crdv1.Job](t, "metadata: {name: j1, uid: j1}\nspec: {runnerGroup: {namespace: shop, name: tests}, content: {command: [x]}}\nstatus: {"+over+"}")
	j.Annotations = map[string]string{crdv1.AnnotationAuthor: crdv1.Author{User: "ada"}.String()}
	d := job.Decide(job.Input{Jobs: []jobs.Input{{Job: j, Now: now}}, Turns: jobs.Turns{"ada": 3, "eve": 2}, Limits: job.Defaults, Now: now})
	if len(d.Turns) != 1 || d.Turns["ada"] != 3 {
		t.Errorf("%v", d.Turns)
	}
}

// Every published field of a Job has an effect, or is written.
func TestFields(t *testing.T) {
	const given = "execution: {count: 1, podUID: p1, begun: true}, runner: {runnerGroupVersion: v1, runnerPod: {namespace: shop, name: p1}}, state: {running: {phase: Starting, jobExecutionAddr: x}}"
	for name, tt := range map[string]struct{ spec, status, answer, silent, want string }{
		"it gets a pod":          {want: "Starting"},
		"with a command":         {spec: strings.Replace(full, `{script: "#!/bin/sh\necho"}`, "{command: [a, b]}", 1), want: "Starting"},
		"with a route group":     {spec: strings.Replace(full, "{sandboxName: sb}", "{routegroupName: rg}", 1), want: "Starting"},
		"without the proxy":      {spec: strings.Replace(full, "injectRoutingKey: Auto", "injectRoutingKey: Disabled", 1), want: "Starting"},
		"it is to be canceled":   {spec: strings.Replace(full, "canceled: false", "canceled: true", 1), want: "Canceled"},
		"its sandbox is missing": {spec: strings.Replace(full, "{sandboxName: sb}", "{sandboxName: other}", 1), want: "SandboxNotFound"},
		"it is not valid":        {spec: strings.Replace(full, "5m", "x", 1), want: "InvalidSpec"},
		"it runs":                {status: given, answer: `{phase: RUNNING, started_at: "2026-11-30T08:00:01Z"}`, want: "Running"},
		"it does not answer":     {status: given, silent: "refused", want: "PodSilent"},
		"it has succeeded": {status: given, want: "Succeeded", answer: `{phase: TERMINATED, started_at: "2026-11-30T08:00:01Z", finished_at: "2026-11-30T08:00:09Z", artifacts_complete: true, ending: {known: true},
			stdout: {total: 3}, stderr: {total: 4}, routing: {with_key: 1, without_key: 2, caveat: c}, artifacts: [{path: /tmp/a, size: 1, sha256: aGFzaA==, content_type: t}, {path: /b, problem: p}]}`},
		"it has failed":         {status: given, want: "ScriptFailed", answer: `{phase: TERMINATED, started_at: "2026-11-30T08:00:01Z", artifacts_complete: true, ending: {known: true, exit_code: 3}}`},
		"its time was over":     {status: given, want: "TimedOut", answer: `{phase: TERMINATED, started_at: "2026-11-30T08:00:01Z", artifacts_complete: true, ending: {known: true, exit_code: 143, timed_out: true}}`},
		"its outcome is lost":   {status: given, want: "ExecutorLost", answer: `{phase: TERMINATED, started_at: "2026-11-30T08:00:01Z", artifacts_complete: true, ending: {reason: ExecutorLost}}`},
		"its output is deleted": {status: over, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			spec := tt.spec
			if spec == "" {
				spec = full
			}
			j := read[crdv1.Job](t, "metadata: {name: j1, uid: j1, generation: 3, creationTimestamp: 2026-11-30T08:00:00Z}\nspec: "+spec+"\nstatus: {"+tt.status+"}")
			group := read[crdv1.JobRunnerGroup](t, "metadata: {namespace: shop, name: tests}\nspec: {image: i}")
			targets := map[string]crdv1.Object{
				"sb": read[crdv1.SignadotSandbox](t, `{metadata: {name: sb}, spec: {id: key}, status: {conditions: [{type: Ready, status: "True"}]}}`),
				"rg": read[crdv1.SignadotRouteGroup](t, `{metadata: {name: rg}, spec: {routingKey: key2}, status: {conditions: [{type: Ready, status: "True"}]}}`),
			}
			decide := func(j *crdv1.Job) (any, client.Object) {
				context := jobs.Context{}
				if c := j.Spec.RoutingContext; c != nil {
					context = jobs.ContextOf(j, targets[c.SandboxName+c.RouteGroupName], now)
				}
				in := jobs.Input{Job: j, Group: group, Now: now, Context: context, Runner: jobs.Runner{Silent: tt.silent, SilentSince: now.Add(-time.Minute), Since: now.Add(-time.Minute), Gone: tt.status == over}}
				if tt.answer != "" {
					in.Runner.Status = answerOf(t, tt.answer)
				}
				pods := []*corev1.Pod{podOf(t, "p1", "")}
				if j.Spec.RunnerGroup.Namespace != "shop" || j.Spec.RunnerGroup.Name != "tests" {
					pods, in.Group = nil, nil // The group of another name.
				}
				d := job.Decide(job.Input{Group: in.Group, Jobs: []jobs.Input{in}, Pods: pods, Turns: jobs.Turns{}, Limits: job.Defaults, Now: now})
				step, stamp := d.Steps[0], metav1.NewTime(now)
				if len(d.Give) == 0 {
					return lineOf(d), job.Conclude(j, step, stamp)
				}
				after := j.DeepCopy()
				after.Status = jobs.Assigned(j, group, pods[0], "c")
				request, err := protojson.Marshal(jobs.Request(after, group, context))
				if err != nil {
					t.Fatal(err)
				}
				step.State, step.Runner, step.Execution = after.Status.State, after.Status.Runner, after.Status.Execution
				return lineOf(d) + strings.ReplaceAll(string(request), " ", ""), job.Conclude(j, step, stamp)
			}
			_, after := decide(j)
			status := after.(*crdv1.Job).Status
			if c := crdv1.FindCondition(status.Conditions, crdv1.ConditionSucceeded); tt.want != "" && (c == nil || c.Reason != tt.want) {
				t.Errorf("%+v", status)
			}
			if tt.silent != "" && status.State.Running == nil {
				t.Errorf("a pod that is silent for a minute is given up: %+v", status.State)
			}
			if o := status.Execution; tt.want == "" && (o == nil || o.Output.State != crdv1.OutputLost) {
				t.Errorf("%+v", o)
			}
			fields.Row(t, crdv1.KindJob, j, decide)
		})
	}
}

// The fields of a group that concern its jobs: whether a pod gets another one, and how long a script may run.
func TestFieldsOfTheGroup(t *testing.T) {
	for name, tt := range map[string]struct{ spec, want string }{
		"a pod is reused":                  {"{image: i, reusePods: true, jobExecutionTimeout: 1m}", "give p1 j2, 60s"},
		"a job may have more time than it": {"{image: i, reusePods: true, jobExecutionTimeout: 1m, allowIncreaseJobExecutionTimeout: true}", "give p1 j2, 300s"},
	} {
		t.Run(name, func(t *testing.T) {
			g := read[crdv1.JobRunnerGroup](t, "metadata: {namespace: shop, name: tests}\nspec: "+tt.spec)
			decide := func(g *crdv1.JobRunnerGroup) (any, client.Object) {
				in := job.Input{Group: g, Pods: []*corev1.Pod{podOf(t, "p1", "j1")}, Limits: job.Defaults, Turns: jobs.Turns{}, Now: now}
				for i, status := range []string{over, ""} {
					j := read[crdv1.Job](t, fmt.Sprintf("metadata: {name: j%d, uid: j%d}\nspec: {runnerGroup: {namespace: shop, name: tests}, content: {command: [x]}, timeout: 5m}\nstatus: {%s}", i+1, i+1, status))
					in.Jobs = append(in.Jobs, jobs.Input{Job: j, Group: g, Now: now})
				}
				next := in.Jobs[1].Job
				next.Status = jobs.Assigned(next, g, in.Pods[0], "c")
				timeout := jobs.Request(next, g, jobs.Context{}).GetTimeout().AsDuration().Seconds()
				next.Status = crdv1.JobStatus{}
				return fmt.Sprintf("%s, %.0fs", lineOf(job.Decide(in)), timeout), g
			}
			if got, _ := decide(g); got != tt.want {
				t.Errorf("%s\nwant %s", got, tt.want)
			}
			fields.Row(t, crdv1.KindJobRunnerGroup, g, decide)
		})
	}
}

// answerOf reads an answer of a runner.
func answerOf(t testing.TB, text string) *jobexecv1.Status {
	t.Helper()
	document, err := yaml.YAMLToJSON([]byte(text))
	st := &jobexecv1.Status{}
	if err == nil {
		err = protojson.Unmarshal(document, st)
	}
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// A job that was to inject the routing key, and sent no request with it, has a caveat.
func TestAJobThatSentNothingWithTheKeyHasACaveat(t *testing.T) {
	j := read[crdv1.Job](t, "metadata: {name: j}\nspec: "+full)
	step := func(with int64) jobs.Step {
		return jobs.Step{State: &crdv1.JobState{Terminated: &crdv1.JobTerminated{Success: true, Reason: "Succeeded"}}, Execution: &crdv1.JobExecution{Count: 1, Requests: &crdv1.JobRequests{WithKey: with, WithoutKey: 2}}}
	}
	c := crdv1.FindCondition(job.Conclude(j, step(0), metav1.NewTime(now)).Status.Conditions, crdv1.ConditionCaveats)
	if c == nil || c.Status != "True" || !strings.Contains(c.Message, "no request with the routing key") || !strings.Contains(c.Message, "(without the key: 2)") {
		t.Errorf("%+v", c)
	}
	if c := crdv1.FindCondition(job.Conclude(j, step(1), metav1.NewTime(now)).Status.Conditions, crdv1.ConditionCaveats); c != nil {
		t.Errorf("%+v", c)
	}
}
