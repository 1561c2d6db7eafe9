package main

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tools/switchyard/command/exit"
)

const runnersFile = `
name: jobs-runners
spec:
  image: example.org/runner:1
  labels: {team: demo}
  scaling: {manual: {desiredPods: 2}}
`

const jobFile = `
spec:
  namePrefix: "@{prefix}"
  runnerGroup: jobs-runners
  script: "#!/bin/sh\necho hello\n"
  routingContext: {sandbox: mine}
  uploadArtifact: [{path: /tmp/report.txt}]
`

// TestJobsWithAKubeconfig has all but output: that needs a kubelet, and is in make demo-jobs.
func TestJobsWithAKubeconfig(t *testing.T) {
	d := newDesk(t, "jobs-operator")
	d.Make(&corev1.Namespace{}, "metadata: {name: jobs-other}")
	runners := d.write("runners.yaml", runnersFile)
	submit := []string{"job", "submit", "-f", d.write("job.yaml", jobFile), "--set", "prefix=e2e"}

	d.does(t, exit.No, "there is no runner group jobs-runners; kubectl switchyard jobrunnergroup list shows", submit...)
	d.does(t, exit.Usage, "f.yaml:2: spec.image is missing", "jobrunnergroup", "apply", "-f", d.write("f.yaml", "name: a\nspec:\n  reusePods: true\n"))
	d.does(t, exit.Usage, "describes a job, not a job runner group; use switchyard job", "jobrunnergroup", "apply", "-f", d.write("job.yaml", jobFile), "--set", "prefix=a")
	d.does(t, exit.OK, "runner group jobs-runners is written", "jobrunnergroup", "apply", "-f", runners)
	g := &crdv1.JobRunnerGroup{}
	d.Must(d.Client.Get(t.Context(), client.ObjectKey{Namespace: "jobs-operator", Name: "jobs-runners"}, g))
	if g.Spec.Image != "example.org/runner:1" || *g.Spec.Replicas != 2 {
		t.Errorf("the runner group is %+v", g.Spec)
	}
	// An autoscaler has the replicas when the file names none.
	g.Spec.Replicas = new(int32(7))
	d.Must(d.Client.Update(t.Context(), g))
	d.does(t, exit.OK, "is written", "jobrunnergroup", "apply", "-f", d.write("auto.yaml", strings.Split(runnersFile, "  scaling")[0]))
	d.does(t, exit.OK, "desiredPods: 7", "jobrunnergroup", "get", "jobs-runners")
	d.does(t, exit.Usage, "spec.scaling.auto needs a control plane", "jobrunnergroup", "apply", "-f", d.write("auto.yaml", strings.Replace(runnersFile, "manual: {desiredPods: 2}", "auto: {maxPods: 2}", 1)))

	d.does(t, exit.Usage, `job.yaml:5: spec.script does not begin with its interpreter`, "job", "submit", "-f", d.write("job.yaml", strings.Replace(jobFile, "#!/bin/sh", "sh", 1)), "--set", "prefix=e2e")
	d.write("job.yaml", jobFile)
	d.does(t, exit.OK, "is queued in runner group jobs-runners", append(submit, "--retries", "2")...)
	var all crdv1.JobList
	d.Must(d.Client.List(t.Context(), &all))
	if len(all.Items) != 1 {
		t.Fatalf("there are %d jobs", len(all.Items))
	}
	j := &all.Items[0]
	if !strings.HasPrefix(j.Name, "e2e-") || j.Spec.RunnerGroup.Namespace != "jobs-operator" || j.Annotations[crdv1.AnnotationRetries] != "2" || j.Spec.RoutingContext.SandboxName != "mine" {
		t.Errorf("the job is %+v", j)
	}
	d.does(t, exit.OK, "QUEUED  RUNNING  MESSAGE\njobs-runners  jobs-operator  example.org/runner:1  0/0    0     1       0", "jobrunnergroup", "list")
	d.does(t, exit.OK, "Against:       sandbox mine\nState:         queued\n", "job", "get", j.Name)
	d.does(t, exit.OK, j.Name, "job", "list")
	d.does(t, exit.OK, "job "+j.Name+" is being canceled", "job", "cancel", j.Name)
	d.Must(d.Client.Get(t.Context(), client.ObjectKeyFromObject(j), j))
	if !j.Spec.Canceled {
		t.Error("it is not canceled")
	}

	// Its operator has run it.
	j.Status.State = &crdv1.JobState{Terminated: &crdv1.JobTerminated{ExitCode: new(int32(3)), Message: "The script exited with code 3.", FinishedAt: new(metav1.Now())}}
	j.Status.Execution = &crdv1.JobExecution{Count: 2, PodUID: "p", Artifacts: []crdv1.JobArtifactState{{Path: "/tmp/report.txt", Problem: "it does not exist"}},
		Output: &crdv1.JobOutput{State: crdv1.OutputKept, Stdout: 6}}
	j.Status.Conditions = []crdv1.StatusCondition{{Type: crdv1.ConditionCaveats, Status: "True", Reason: "R", Message: "No request had the key.", LastTransitionTime: metav1.Now()}}
	d.Must(d.Client.Status().Update(t.Context(), j))
	if _, _, errs := ask(t, append([]string{"job", "get", j.Name}, d.args...)...); errs != "caveat: No request had the key.\n" {
		t.Errorf("its caveat is shown as %q", errs)
	}
	d.does(t, exit.OK, "Message:       exit code 3: The script exited with code 3.\n", "job", "get", j.Name)
	d.does(t, exit.OK, "Executions:    2\nArtifact:      /tmp/report.txt: not stored: it does not exist\nArtifact:      @stdout, 6 bytes\nArtifact:      @stderr, 0 bytes\n", "job", "get", j.Name)
	d.does(t, exit.OK, `"phase": "failed"`, "job", "get", j.Name, "-o", "json")
	d.does(t, exit.OK, "no jobs\n", "job", "list")
	d.does(t, exit.OK, "failed", "job", "list", "--all")
	d.does(t, exit.OK, "job "+j.Name+" has ended: it is failed", "job", "cancel", j.Name)
	d.does(t, exit.No, "there is no job none", "job", "get", "none")
	d.does(t, exit.Usage, "--attach prints the output of the job, and no json", append(submit, "--attach", "-o", "json")...)
	d.does(t, exit.Unavailable, "there is no controller manager in namespace jobs-operator", "job", "logs", j.Name)

	// Two of a name need a choice.
	d.does(t, exit.OK, "is written", "jobrunnergroup", "apply", "-f", d.write("other.yaml", strings.Replace(runnersFile, "spec:", "spec:\n  namespace: jobs-other", 1)))
	d.does(t, exit.Usage, "in the namespaces jobs-operator, jobs-other: choose one with --namespace", submit...)
	d.does(t, exit.OK, "is queued", append(submit, "--namespace", "jobs-other")...)
	d.does(t, exit.No, "has not ended within --timeout 2s; it runs on: kubectl switchyard job get", append(submit, "--namespace", "jobs-other", "--wait", "--timeout", "2s")...)
	d.does(t, exit.OK, "runner group jobs-runners is being deleted", "jobrunnergroup", "delete", "-f", runners, "-n", "jobs-other")
	d.does(t, exit.OK, "runner group jobs-runners is being deleted", "jobrunnergroup", "delete", "jobs-runners")
	d.does(t, exit.OK, "no runner groups", "jobrunnergroup", "list")
}
