package published_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	v2 "switchyard.dev/protos/controlplane/v2"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/jobs"
	"switchyard.dev/workflows/jobs/published"
)

const job = `
namePrefix: E2E_
runnerGroup: demo-jrg
script: |
  #!/bin/sh
  echo hello
env: [{name: LEVEL, value: debug}]
labels: {team: demo}
retries: 2
routingContext: {sandbox: demo-sb}
trafficManager: {injectRoutingKey: auto}
uploadArtifact: [{path: /data/report.txt, meta: {kind: report}}]
`

func read[T any](t *testing.T, text string) (out T) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func written(t *testing.T, of any) string {
	t.Helper()
	text, err := json.Marshal(of)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The operator accepts the compiled object, and the report of the object has the specification.
func TestAJobAsAnObjectAndBack(t *testing.T) {
	asked := read[v2.JobSpec](t, job)
	j, err := published.Job(asked, "signadot")
	if err != nil {
		t.Fatal(err)
	}
	if problems := jobs.Accept(j); len(problems) > 0 {
		t.Errorf("the operator refuses it: %q", problems)
	}
	if j.GenerateName != "e2e-" || j.Spec.RoutingContext.SandboxName != "demo-sb" || j.Spec.TrafficManager.InjectRoutingKey != jobs.InjectAuto || j.Annotations[crdv1.AnnotationRetries] != "2" {
		t.Errorf("the object is %s", written(t, j))
	}
	asked.NamePrefix, asked.TrafficManager.Enabled = new("e2e"), new(false)
	if got := written(t, published.ReportOfJob(j).Spec); got != written(t, asked) {
		t.Errorf("the specification is\n%s, not\n%s", got, written(t, asked))
	}
}

func TestWrongJobs(t *testing.T) {
	for change, want := range map[string]string{
		"runnerGroup: demo-jrg|": "spec.runnerGroup is missing",
		"#!/bin/sh|sh":           "spec.script does not begin with its interpreter",
		"E2E_|a.b":               `spec.namePrefix is "a.b"`,
		"LEVEL|SIGNADOT_X":       "spec.env[0] is wrong: the name",
		"sandbox: demo-sb|sandbox: a, routegroup: b": "spec.routingContext names a sandbox and a route group",
		"Key: auto|Key: always":                      `spec.trafficManager.injectRoutingKey is "always"`,
		"path: /data/report.txt|path: /data/":        `spec.uploadArtifact[0] is wrong: "/data/" is a folder`,
		"retries: 2|retries: 11":                     "spec.retries is wrong: ",
		"labels: |command: [a]\nlabels: ":            "spec has a script and a command",
	} {
		t.Run(change, func(t *testing.T) {
			old, text, _ := strings.Cut(change, "|")
			_, err := published.Job(read[v2.JobSpec](t, strings.Replace(job, old, text, 1)), "signadot")
			if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("the error is %v, not %s", err, want)
			}
		})
	}
}

func TestPhases(t *testing.T) {
	at := metav1.NewTime(time.Unix(0, 0))
	ended := func(t crdv1.JobTerminated) *crdv1.JobState {
		t.FinishedAt = &at
		return &crdv1.JobState{Terminated: &t}
	}
	for want, state := range map[string]*crdv1.JobState{
		`"queued","state":{"queued":{}}`:                                                                                                 nil,
		`"queued","state":{"queued":{"message":"m"}}`:                                                                                    {Waiting: &crdv1.JobWaiting{Message: "m"}},
		`"running","state":{"running":{"podName":"p","podNamespace":"n"}}`:                                                               {Running: &crdv1.JobRunning{}},
		`"succeeded","state":{"succeeded":{"exitCode":0}}`:                                                                               ended(crdv1.JobTerminated{Success: true, ExitCode: new(int32(0))}),
		`"failed","state":{"failed":{"exitCode":3,"message":"m","retryAttempt":false}}`:                                                  ended(crdv1.JobTerminated{ExitCode: new(int32(3)), Message: "m"}),
		`"failed","state":{"failed":{"message":"m","retryAttempt":true}}`:                                                                ended(crdv1.JobTerminated{Message: "m", Retryable: true}),
		`"canceled","state":{"canceled":{"canceledAt":"1970-01-01T00:00:00Z","canceledBy":"timeout","inCluster":true,"message":"m"}}`:    ended(crdv1.JobTerminated{Message: "m", TimedOut: true, ExitCode: new(int32(143))}),
		`"canceled","state":{"canceled":{"canceledAt":"1970-01-01T00:00:00Z","canceledBy":"apiRequest","inCluster":true,"message":"m"}}`: ended(crdv1.JobTerminated{Message: "m", Canceled: true, Reason: jobs.ReasonCanceled}),
		`"canceled","state":{"canceled":{"canceledAt":"1970-01-01T00:00:00Z","canceledBy":"internal","inCluster":true,"message":"m"}}`:   ended(crdv1.JobTerminated{Message: "m", Canceled: true, Reason: jobs.ReasonSandboxDeleted}),
	} {
		j := &crdv1.Job{Status: crdv1.JobStatus{State: state, Runner: &crdv1.JobRunner{RunnerPod: crdv1.NamespacedName{Namespace: "n", Name: "p"}}}}
		if got := written(t, published.AttemptOf(j).Report(time.Time{})); !strings.Contains(got, `"phase":`+want) {
			t.Errorf("it is %s, not %s", got, want)
		}
	}
}

// TestACaveatIsPublished: a job that has sent no request with the key succeeds with a caveat.
func TestACaveatIsPublished(t *testing.T) {
	j := &crdv1.Job{Status: crdv1.JobStatus{State: &crdv1.JobState{Terminated: &crdv1.JobTerminated{Success: true}},
		Conditions: []crdv1.StatusCondition{{Type: crdv1.ConditionCaveats, Status: "True", Message: "No request had the key."}}}}
	if got := published.AttemptOf(j).Report(time.Time{}).Caveat; got == nil || *got != "No request had the key." {
		t.Errorf("the caveat is %v", got)
	}
	j.Status.Conditions = nil
	if got := published.AttemptOf(j).Report(time.Time{}).Caveat; got != nil {
		t.Errorf("without the condition the caveat is %s", *got)
	}
}

const group = `
namespace: shop
image: example.org/runner:1
jobTimeout: 10m
reusePods: true
labels: {team: demo}
scaling: {manual: {desiredPods: 2}}
`

// Files have the end of what the bucket has, unless the pod alone has them.
func TestFilesInTheBucketHaveAnEnd(t *testing.T) {
	until := metav1.NewTime(time.Date(2026, 12, 1, 8, 0, 0, 0, time.UTC))
	for message, want := range map[string]string{"": "2026-12-01T08:00:00Z", "It is away.": ""} {
		o := &crdv1.Job{Status: crdv1.JobStatus{Execution: &crdv1.JobExecution{
			Artifacts: []crdv1.JobArtifactState{{Path: "/a"}}, Output: &crdv1.JobOutput{State: crdv1.OutputKept, Message: message, StoredUntil: &until},
		}}}
		for _, f := range published.ArtifactsOf(o) {
			if f.Problem != nil || (f.ExpiresAt == nil) != (want == "") || want != "" && *f.ExpiresAt != want {
				t.Errorf("%q: %+v", message, f)
			}
		}
	}
}

func TestAGroupAsAnObjectAndBack(t *testing.T) {
	asked := read[v2.JobRunnerGroupSpec](t, group)
	g, err := published.Group("g", asked, "signadot")
	if err != nil {
		t.Fatal(err)
	}
	if got := written(t, published.ReportOfGroup(g, nil).Spec); got != written(t, asked) {
		t.Errorf("the specification is\n%s, not\n%s", got, written(t, asked))
	}
	running := crdv1.Job{Spec: crdv1.JobSpec{RunnerGroup: crdv1.NamespacedName{Namespace: "shop", Name: "g"}}, Status: crdv1.JobStatus{State: &crdv1.JobState{Running: &crdv1.JobRunning{}}}}
	queued, other := *running.DeepCopy(), *running.DeepCopy()
	queued.Status.State, other.Spec.RunnerGroup.Namespace = nil, "other"
	if e := published.ReportOfGroup(g, []crdv1.Job{running, queued, other, queued}).Status.Executions; e.Queued != 2 || e.Running != 1 {
		t.Errorf("its jobs are %+v", e)
	}
}

func TestTheImageOfATemplate(t *testing.T) {
	g, err := published.Group("g", read[v2.JobRunnerGroupSpec](t, "podTemplate: {spec: {containers: [{name: a, image: one}, {name: main, image: two}]}}"), "signadot")
	if err != nil || g.Spec.Image != "two" || g.Namespace != "signadot" || g.Spec.Replicas != nil {
		t.Errorf("%s, %v", written(t, g), err)
	}
}

func TestWrongGroups(t *testing.T) {
	for change, want := range map[string]string{
		"example.org/runner:1|":          "spec.image is missing",
		"10m|10 minutes":                 "spec.jobTimeout is ",
		"desiredPods: 2|desiredPods: -1": "spec.scaling.manual.desiredPods is -1",
		"manual: {desiredPods: 2}|auto: {minPods: 3, maxPods: 2}":       "spec.scaling.auto has minPods 3 and maxPods 2",
		"manual: {desiredPods: 2}|manual: {}, auto: {maxPods: 2}":       "spec.scaling has manual and auto",
		"namespace: |podTemplate: {spec: {container: []}}\nnamespace: ": "spec.podTemplate.spec.container is not a field",
	} {
		t.Run(change, func(t *testing.T) {
			old, text, _ := strings.Cut(change, "|")
			_, err := published.Group("g", read[v2.JobRunnerGroupSpec](t, strings.Replace(group, old, text, 1)), "signadot")
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("the error is %v, not %s", err, want)
			}
		})
	}
}
