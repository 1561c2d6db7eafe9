package jobs

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/workflows/jobexec/layout"
	"switchyard.dev/workflows/jobexec/socket"
)

// Reasons for which a job waits. A pod that does not start has the reason of its group.
const (
	ReasonNoIdlePod           = "NoIdlePod"
	ReasonNoPods              = "NoPods"
	ReasonPodsNotReady        = "PodsNotReady"
	ReasonRunnerGroupNotFound = "RunnerGroupNotFound"
	ReasonSandboxNotReady     = "SandboxNotReady"
	ReasonSandboxNotFound     = "SandboxNotFound"
	ReasonRouteGroupNotReady  = "RouteGroupNotReady"
	ReasonRouteGroupNotFound  = "RouteGroupNotFound"
	ReasonNotBegun            = "NotBegun"
	ReasonRetry               = "Retry"
)

// Reasons for which a job has ended, beside those of its script (packages script and socket).
const (
	ReasonSucceeded         = "Succeeded"
	ReasonTimedOut          = socket.TimedOut
	ReasonCanceled          = socket.Canceled
	ReasonDeleted           = "Deleted"
	ReasonUninstalled       = "OperatorUninstalled"
	ReasonInvalidSpec       = "InvalidSpec"
	ReasonSandboxDeleted    = "SandboxDeleted"
	ReasonSandboxFailed     = "SandboxFailed"
	ReasonRouteGroupDeleted = "RouteGroupDeleted"
	ReasonRouteGroupFailed  = "RouteGroupFailed"
	ReasonOutOfMemory       = socket.OutOfMemory
	ReasonExecutorLost      = layout.ExecutorLost
	ReasonPodDeleted        = "PodDeleted"
	ReasonPodEnded          = "PodEnded"
	ReasonPodSilent         = "PodSilent"
	ReasonPodTerminated     = socket.PodTerminated
)

// Phases of a running job.
const (
	PhaseStarting = "Starting"
	PhaseRunning  = "Running"
	PhaseStopping = "Stopping"
)

const (
	// quick is how long a script runs before its status states when it started: a shorter one costs one
	// write less.
	quick = 2 * time.Second
	// together is for how long the artifacts are awaited before the outcome is recorded, which saves a write.
	together = time.Second
	// podReport is how long the pod's own report about its container is awaited after the runner has
	// reported that the executor was lost.
	podReport = 5 * time.Second
	// patience is how long after the timeout of the script its pod may be silent.
	patience = 2 * time.Minute
)

// Input is what counts for one job. It must not be changed.
type Input struct {
	Job *crdv1.Job
	// Group is its runner group; nil: there is none.
	Group *crdv1.JobRunnerGroup
	// Context is its routing context.
	Context Context
	// Runner is the pod with the recorded execution.
	Runner Runner
	// Stored is for how long the operator's bucket has its results after its end; 0: the operator stores none.
	Stored time.Duration
	// Rests: the operator is being uninstalled. A script that runs is stopped; other jobs stay as they are.
	Rests bool
	Now   time.Time
}

// Runner is the observed state of the pod with the recorded execution of a job.
type Runner struct {
	// Pod is that pod; nil: it is not known.
	Pod *corev1.Pod
	// Gone: the API server has reported that the pod does not exist.
	Gone bool
	// Status is the last answer of the runner about the execution, and Since when it was first as it is;
	// nil: there is none yet.
	Status *jobexecv1.Status
	Since  time.Time
	// Refused: the runner has answered that it cannot begin the execution.
	Refused bool
	// Invalid is why the runner has answered that it begins no such execution, which it has not begun; empty: it has not.
	Invalid string
	// Unknown: the runner has answered that it has no such execution.
	Unknown bool
	// Dropped: the runner has reported, with a later execution, that it has deleted the results.
	Dropped bool
	// Released: the runner has reported that the results were read, and deleted after that. It is not recorded while the
	// pod exists and can get other jobs: a write for each job would be more than one may cost.
	Released bool
	// Stored: everything is in the bucket of the operator, which is recorded as Released is. Storing: it is not known yet
	// whether it is, or will be. Unstored is why attempts to store it have failed; empty: they have not.
	Stored, Storing bool
	Unstored        string
	// Silent is the last error of a call, and SilentSince when the first one without an answer after it failed; empty
	// while the runner answers.
	Silent      string
	SilentSince time.Time
}

// Why is a reason with a message for users.
type Why struct{ Reason, Message string }

// cause is why a job is to end before its script does.
type cause struct {
	Why
	stop     jobexecv1.StopRequest_Cause
	canceled bool
}

// Step is what to record of a job, and what to do once it is recorded.
type Step struct {
	// State, Runner and Execution are for the status.
	State     *crdv1.JobState
	Runner    *crdv1.JobRunner
	Execution *crdv1.JobExecution
	// Queued: it can be given to a pod. Its State does not state why it has none.
	Queued bool
	// Follow: the runner is asked for the state of the execution, which Run begins, unless Stop is set.
	// With Await it is asked until the results are released.
	Follow, Await bool
	Stop          *jobexecv1.StopRequest
	// Settled: the job needs its pod no longer, and Drain is why no other job gets that, if none does.
	Settled bool
	Drain   string
	// After is the delay until the next step without an event; 0: none.
	After time.Duration
}

// Next returns the next step of a job.
func Next(in Input) Step {
	s := in.Job.Status
	out := Step{State: s.State, Runner: s.Runner, Execution: s.Execution.DeepCopy()}
	switch {
	case s.State != nil && s.State.Terminated != nil:
		return in.ended(out)
	case s.Execution != nil && s.Execution.Begun:
		return in.begun(out)
	}
	return in.waiting(out)
}

// over returns why the job is to end whatever its script does; nil: it is not.
func (in Input) over() *cause {
	switch j, g := in.Job, in.Group; {
	case in.Rests:
		return &cause{Why{ReasonUninstalled, "The operator was uninstalled."}, jobexecv1.StopRequest_CAUSE_UNSPECIFIED, false}
	case j.DeletionTimestamp != nil:
		return &cause{Why{ReasonDeleted, "The Job was deleted."}, jobexecv1.StopRequest_DELETED, true}
	case j.Spec.Canceled:
		return &cause{Why{ReasonCanceled, "The job was canceled."}, jobexecv1.StopRequest_CANCELED, true}
	case in.Context.Ended != nil:
		return &cause{*in.Context.Ended, jobexecv1.StopRequest_SANDBOX_GONE, false}
	case g != nil && g.DeletionTimestamp != nil:
		return &cause{Why{crdv1.ReasonRunnerGroupDeleted, fmt.Sprintf("Runner group %s was deleted.", group(j))}, jobexecv1.StopRequest_CAUSE_UNSPECIFIED, false}
	}
	return nil
}

// waiting is the step of a job with a script that has not begun.
func (in Input) waiting(out Step) Step {
	problems := Accept(in.Job)
	switch c := in.over(); {
	case in.Rests || in.Job.DeletionTimestamp != nil:
		return out // It needs no state for that.
	case c != nil:
		return in.end(out, crdv1.JobTerminated{Canceled: c.canceled, Reason: c.Reason, Message: c.Message})
	case len(problems) > 0:
		return in.end(out, crdv1.JobTerminated{Reason: ReasonInvalidSpec, Message: strings.Join(problems[:min(2, len(problems))], " ") + " Submit another job."})
	case in.Context.Waits != nil:
		out.wait(*in.Context.Waits)
	case in.Group == nil:
		out.wait(Why{ReasonRunnerGroupNotFound, fmt.Sprintf("There is no runner group %s. Create it, or submit the job to another one.", group(in.Job))})
	default:
		out.Queued = true
	}
	return out
}

// wait records why a job waits.
func (s *Step) wait(w Why) {
	s.State = &crdv1.JobState{Waiting: &crdv1.JobWaiting{Reason: w.Reason, Message: w.Message}}
}

// begun is the step of a job with a script that may have begun.
func (in Input) begun(out Step) Step {
	c, st := in.over(), in.Runner.Status
	switch {
	case st.GetPhase() == jobexecv1.Status_TERMINATED && neverBegan(st) && c == nil:
		out.Drain = crdv1.DrainingFailed // it would never begin this execution, if it got the job again
		return in.unbegin(out, Why{ReasonNotBegun, fmt.Sprintf("Pod %s could not begin the job, which gets another pod.", pod(in.Job))})
	case st.GetPhase() == jobexecv1.Status_TERMINATED && st.GetEnding().GetKnown():
		if rest := together - in.Now.Sub(in.Runner.Since); !st.GetArtifactsComplete() && !in.Runner.Gone && rest > 0 {
			out.Follow, out.After = true, rest
			return out
		}
		return in.finish(out, st, c)
	case st.GetPhase() == jobexecv1.Status_TERMINATED:
		return in.unproved(out, st)
	case in.Runner.Invalid != "" && c == nil:
		out.Execution.Begun = false
		return in.end(out, crdv1.JobTerminated{
			Reason: ReasonInvalidSpec, Message: fmt.Sprintf("Pod %s refuses the job: %s. Submit another job.", pod(in.Job), strings.TrimSuffix(in.Runner.Invalid, ".")),
		})
	case in.Runner.Gone:
		return in.lost(out, in.goneWhy())
	case in.Runner.Pod != nil && (in.Runner.Pod.Status.Phase == corev1.PodFailed || in.Runner.Pod.Status.Phase == corev1.PodSucceeded):
		return in.lost(out, Why{ReasonPodEnded, fmt.Sprintf("Pod %s ended while the script ran (%s)", pod(in.Job), podReason(in.Runner.Pod))})
	case in.silent():
		out.Drain = crdv1.DrainingFailed
		return in.lost(out, Why{ReasonPodSilent, fmt.Sprintf("Pod %s did not answer until after the timeout (%s)", pod(in.Job), in.Runner.Silent)})
	}
	out.Follow = true
	if c != nil {
		out.Stop = &jobexecv1.StopRequest{Ref: Ref(in.Job), Cause: c.stop, Message: c.Message}
	} else if in.Runner.Refused && st.GetPhase() != jobexecv1.Status_RUNNING {
		// The answer proves that the script has not begun there and never will, or has the outcome.
		out.Stop = &jobexecv1.StopRequest{Ref: Ref(in.Job), Message: "The job gets another pod."}
	}
	return in.running(out, c)
}

// neverBegan reports whether a runner has proved that an execution has not begun and never will there.
func neverBegan(st *jobexecv1.Status) bool {
	e := st.GetEnding()
	return st.GetStartedAt() == nil && e.GetKnown() && e.GetCanceled()
}

// running records the progress of a script.
func (in Input) running(out Step, c *cause) Step {
	var have crdv1.JobRunning
	if in.Job.Status.State != nil && in.Job.Status.State.Running != nil {
		have = *in.Job.Status.State.Running
	}
	now := have
	if at := in.Runner.Status.GetStartedAt(); in.Runner.Status.GetPhase() == jobexecv1.Status_RUNNING && at != nil && have.StartedAt == nil {
		if rest := quick - in.Now.Sub(at.AsTime()); rest > 0 {
			out.After = rest
		} else {
			now.StartedAt, now.Phase, now.Reason, now.Message = stamp(at.AsTime()), PhaseRunning, "", ""
		}
	}
	switch {
	case c != nil:
		now.Phase, now.Reason, now.Message = PhaseStopping, c.Reason, c.Message+" The script is being stopped."
	case in.Runner.Silent != "" && in.quiet() >= podReport:
		if have.Reason != ReasonPodSilent { // The text of an error can vary.
			now.Reason, now.Message = ReasonPodSilent, fmt.Sprintf("Pod %s does not answer: %s", pod(in.Job), in.Runner.Silent)
		}
	case have.Reason == ReasonPodSilent:
		now.Reason, now.Message = "", ""
	}
	if in.Runner.Silent != "" { // A pod that stays silent causes no other event.
		next := in.mostSilent()
		if in.quiet() < podReport {
			next = podReport
		}
		if next -= in.quiet(); out.After == 0 || next < out.After {
			out.After = next
		}
	}
	out.State = &crdv1.JobState{Running: &now}
	return out
}

// quiet returns for how long the pod has been silent.
func (in Input) quiet() time.Duration { return in.Now.Sub(in.Runner.SilentSince) }

// silent reports whether the pod has been silent until well after the timeout of the script.
func (in Input) silent() bool {
	return in.Runner.Silent != "" && in.quiet() >= in.mostSilent()
}

// mostSilent is for how long the pod may be silent: after that, its script has ended.
func (in Input) mostSilent() time.Duration {
	return recorded(in.Job) + longestGrace + patience
}

// Assigned returns the status of a job that is given to a pod of a group: the fence of its next execution, which may
// begin once this is recorded.
func Assigned(j *crdv1.Job, g *crdv1.JobRunnerGroup, p *corev1.Pod, container string) crdv1.JobStatus {
	s, count := j.Status, int32(1)
	if s.Execution != nil {
		count = s.Execution.Count + 1
	}
	s.Execution = &crdv1.JobExecution{Count: count, PodUID: string(p.UID), ContainerID: container, Begun: true, Timeout: &metav1.Duration{Duration: Timeout(j, g)}}
	s.Runner = &crdv1.JobRunner{
		RunnerGroupVersion: p.Labels[crdv1.JobRunnerGroupVersionLabel],
		RunnerPod:          crdv1.NamespacedName{Namespace: p.Namespace, Name: p.Name},
	}
	s.State = &crdv1.JobState{Running: &crdv1.JobRunning{
		JobExecutionAddr: net.JoinHostPort(p.Status.PodIP, strconv.Itoa(layout.Port)), Phase: PhaseStarting,
	}}
	return s
}

// StartedAt returns when the script of a state started; nil: it has not, or that is not recorded yet.
func StartedAt(s *crdv1.JobState) *metav1.Time {
	switch {
	case s == nil:
		return nil
	case s.Terminated != nil:
		return s.Terminated.StartedAt
	case s.Running != nil:
		return s.Running.StartedAt
	}
	return nil
}

// stamp returns a time with the resolution of a status.
func stamp(t time.Time) *metav1.Time { return &metav1.Time{Time: t.UTC().Truncate(time.Second)} }

// group and pod name the runner group and the pod of a job for messages.
func group(j *crdv1.Job) string { return j.Spec.RunnerGroup.Namespace + "/" + j.Spec.RunnerGroup.Name }

func pod(j *crdv1.Job) string {
	if j.Status.Runner == nil {
		return "(none)"
	}
	return j.Status.Runner.RunnerPod.Namespace + "/" + j.Status.Runner.RunnerPod.Name
}
