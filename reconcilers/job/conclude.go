package job

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/workflows/jobs"
)

// reasonAccepted is the reason of the condition Accepted of a valid job, and reasonAssigned that of
// RunnerAssigned of a job with a pod.
const (
	reasonAccepted = "Accepted"
	reasonAssigned = "Assigned"
)

// Conclude returns a job with the status of its step; the job itself if that is recorded already.
func Conclude(j *crdv1.Job, s jobs.Step, now metav1.Time) *crdv1.Job {
	if s.State == nil || j.Status.ObservedGeneration == j.Generation && equality.Semantic.DeepEqual(j.Status.State, s.State) &&
		equality.Semantic.DeepEqual(j.Status.Execution, s.Execution) && equality.Semantic.DeepEqual(j.Status.Runner, s.Runner) {
		return j
	}
	o := j.DeepCopy()
	o.Status.State, o.Status.Execution, o.Status.Runner = s.State, s.Execution, s.Runner
	o.Status.ObservedGeneration, o.Status.ObservedAt = o.Generation, &now
	condition.Write(o, conditions(o), now)
	if caveats := jobs.Caveats(o); s.State.Terminated == nil || len(caveats) == 0 {
		condition.Drop(o, crdv1.ConditionCaveats)
	}
	return o
}

// conditions returns those of a job with this status.
func conditions(j *crdv1.Job) condition.Set {
	out := condition.Set{crdv1.ConditionAccepted: condition.True(reasonAccepted, "The spec is valid.")}
	assigned := condition.True(reasonAssigned, "")
	if r := j.Status.Runner; r != nil {
		assigned.Message = "Pod " + r.RunnerPod.Namespace + "/" + r.RunnerPod.Name + "."
	}
	switch s := j.Status.State; {
	case s.Waiting != nil:
		out[crdv1.ConditionRunnerAssigned] = condition.False(s.Waiting.Reason, s.Waiting.Message)
		out[crdv1.ConditionFinished] = condition.False(s.Waiting.Reason, s.Waiting.Message)
		out[crdv1.ConditionSucceeded] = condition.Unknown(s.Waiting.Reason, s.Waiting.Message)
	case s.Running != nil:
		reason, message := s.Running.Reason, s.Running.Message
		if reason == "" {
			reason, message = s.Running.Phase, map[string]string{
				jobs.PhaseStarting: "The pod begins the script.", jobs.PhaseRunning: "The script runs.",
			}[s.Running.Phase]
		}
		out[crdv1.ConditionRunnerAssigned] = assigned
		out[crdv1.ConditionFinished] = condition.False(reason, message)
		out[crdv1.ConditionSucceeded] = condition.Unknown(reason, message)
	default:
		t := s.Terminated
		if out[crdv1.ConditionRunnerAssigned] = assigned; j.Status.Runner == nil {
			out[crdv1.ConditionRunnerAssigned] = condition.False(t.Reason, "The job ended before it got a pod.")
		}
		if t.Reason == jobs.ReasonInvalidSpec {
			out[crdv1.ConditionAccepted] = condition.False(t.Reason, t.Message)
		}
		out[crdv1.ConditionFinished] = condition.True(t.Reason, t.Message)
		out[crdv1.ConditionSucceeded] = condition.False(t.Reason, t.Message)
		if t.Success {
			out[crdv1.ConditionSucceeded] = condition.True(t.Reason, t.Message)
		}
		if caveats := jobs.Caveats(j); len(caveats) > 0 {
			out[crdv1.ConditionCaveats] = condition.True(crdv1.ConditionCaveats, strings.Join(caveats, "\n"))
		}
	}
	return out
}
