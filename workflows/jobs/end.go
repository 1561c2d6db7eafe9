package jobs

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/workflows/script"
)

// end records the end of a job.
func (in Input) end(out Step, t crdv1.JobTerminated) Step {
	if t.FinishedAt == nil {
		t.FinishedAt = stamp(in.Now)
	}
	if t.StartedAt == nil {
		t.StartedAt = StartedAt(in.Job.Status.State)
	}
	out.State = &crdv1.JobState{Terminated: &t}
	out.Settled = out.Execution == nil || !out.Execution.Begun || out.Execution.Output != nil
	return out
}

// finish records the known end of a script, and c, why it was to end; nil: it was not.
func (in Input) finish(out Step, st *jobexecv1.Status, c *cause) Step {
	e := st.GetEnding()
	t := crdv1.JobTerminated{TimedOut: e.GetTimedOut(), Reason: e.GetReason(), Message: e.GetMessage()}
	if at := st.GetStartedAt(); at != nil {
		t.StartedAt = stamp(at.AsTime())
	}
	if at := st.GetFinishedAt(); at != nil {
		t.FinishedAt = stamp(at.AsTime())
	}
	if !neverBegan(st) {
		t.ExitCode = new(e.GetExitCode())
	}
	switch {
	case e.GetCanceled() && c != nil:
		t.Canceled, t.Reason, t.Message = c.canceled, c.Reason, c.Message
	case e.GetCanceled():
		t.Canceled, t.Reason, t.Message = true, ReasonCanceled, "The job was canceled."
	case e.GetTimedOut():
		t.Reason, t.Message = ReasonTimedOut, cmp.Or(t.Message, "The script ran longer than its timeout, and was stopped.")
	case e.GetReason() == ReasonPodTerminated:
		t.Retryable = true
	case e.GetSignal() != 0:
		t.Reason = cmp.Or(t.Reason, script.Killed)
		t.Message = cmp.Or(t.Message, fmt.Sprintf("The script was ended by signal %d (%s).", e.GetSignal(), unix.SignalName(unix.Signal(e.GetSignal()))))
	case e.GetExitCode() != 0 || e.GetReason() != "":
		t.Reason = cmp.Or(t.Reason, script.Failed)
		t.Message = cmp.Or(t.Message, fmt.Sprintf("The script exited with code %d.", e.GetExitCode()))
	default:
		t.Success, t.Reason, t.Message = true, ReasonSucceeded, strings.TrimSuffix("The script exited with code 0; "+e.GetMessage(), "; ")+"."
	}
	if t.Retryable && in.left() {
		return in.again(out, e.GetMessage())
	}
	in.report(&out, st)
	if e.GetLeftover() {
		t.Message += " Some of its processes could not be ended, so the pod is replaced."
		out.Drain = crdv1.DrainingLeftover
	}
	return in.end(out, t)
}

// report records what the runner has of an execution that has ended: its output once all of it is stored.
func (in Input) report(s *Step, st *jobexecv1.Status) {
	e := s.Execution
	if r := st.GetRouting(); r != nil {
		e.Requests = &crdv1.JobRequests{WithKey: int64(r.GetWithKey()), WithoutKey: int64(r.GetWithoutKey()), Caveat: r.GetCaveat()}
	}
	e.Artifacts = nil
	for _, a := range st.GetArtifacts() {
		e.Artifacts = append(e.Artifacts, crdv1.JobArtifactState{
			Path: a.GetPath(), Size: int64(a.GetSize()), SHA256: hex.EncodeToString(a.GetSha256()), ContentType: a.GetContentType(), Problem: a.GetProblem(),
		})
	}
	switch {
	case st.GetDropped() != "":
		e.Output = &crdv1.JobOutput{State: crdv1.OutputLost, Message: st.GetDropped()}
	case st.GetArtifactsComplete():
		e.Output = &crdv1.JobOutput{State: crdv1.OutputKept, Stdout: int64(st.GetStdout().GetTotal()), Stderr: int64(st.GetStderr().GetTotal())}
		if in.Stored > 0 {
			e.Output.StoredUntil = stamp(st.GetFinishedAt().AsTime().Add(in.Stored))
		}
	}
}

// unstored states why results in a pod are not in the operator's bucket, for which it is to have been asked more than once: a job
// costs no write for that else.
func (in Input) unstored(o *crdv1.JobOutput) {
	switch {
	case in.Runner.Stored:
		o.Message = ""
	case in.Runner.Unstored != "" && o.Message == "": // The text of an error can vary.
		o.Message = "Output and artifacts could not be stored in the bucket of the operator: " + cut(in.Runner.Unstored, longestReason) + "."
	}
}

// unproved is the step of a job with a runner that does not know how the script ended. The report of the pod
// about its container is awaited, which may have the reason.
func (in Input) unproved(out Step, st *jobexecv1.Status) Step {
	e, of := st.GetEnding(), in.Job.Status.Execution.ContainerID
	ended, known := endOf(in.Runner.Pod, of)
	switch {
	case known && ended.Reason == "OOMKilled":
		in.report(&out, st)
		return in.end(out, crdv1.JobTerminated{
			Reason:  ReasonOutOfMemory,
			Message: fmt.Sprintf("The script used more memory than container %s of pod %s may. Raise its limit in the runner group's template, or use less.", ended.container, pod(in.Job)),
		})
	case !known && in.Runner.Pod != nil && in.Now.Sub(in.Runner.Since) < podReport:
		out.Follow, out.After = true, podReport-in.Now.Sub(in.Runner.Since)
		return out
	}
	in.report(&out, st)
	why := Why{cmp.Or(e.GetReason(), ReasonExecutorLost), strings.TrimSuffix(cmp.Or(e.GetMessage(), fmt.Sprintf("The executor in pod %s ended while the script ran", pod(in.Job))), ".")}
	return in.lost(out, why)
}

// termination is the end of a container.
type termination struct {
	corev1.ContainerStateTerminated
	container string
}

// endOf returns how the start of a container with this ID ended, as its pod reports.
func endOf(p *corev1.Pod, id string) (termination, bool) {
	if p == nil {
		return termination{}, false
	}
	for _, c := range p.Status.ContainerStatuses {
		for _, t := range []*corev1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
			if t != nil && t.ContainerID == id && id != "" {
				return termination{*t, c.Name}, true
			}
		}
	}
	return termination{}, false
}

// goneWhy returns why the outcome of an execution in a deleted pod is unknown.
func (in Input) goneWhy() Why {
	return Why{ReasonPodDeleted, fmt.Sprintf("Pod %s was deleted while the script ran", pod(in.Job))}
}

// podReason returns why a pod ended, in a few words.
func podReason(p *corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return c.Reason
		}
	}
	return cmp.Or(p.Status.Reason, "phase "+string(p.Status.Phase))
}

// left reports whether the script of a job runs again after an execution that could not end by itself.
func (in Input) left() bool {
	most, _ := retries(in.Job) // Accept has refused another text
	return in.over() == nil && in.Job.Status.Execution.Count <= most
}

// again records that the script of a job runs again.
func (in Input) again(out Step, message string) Step {
	most, _ := retries(in.Job)
	return in.unbegin(out, Why{ReasonRetry, fmt.Sprintf("%s The script runs again: execution %d of at most %d.", message, out.Execution.Count+1, most+1)})
}

// lost ends an execution with an unknown outcome: with another execution if the job has one left, or as
// failed.
func (in Input) lost(out Step, why Why) Step {
	e, message := out.Execution, why.Message+", so its outcome is unknown."
	if in.left() {
		return in.again(out, message)
	}
	if e.Output == nil && in.Runner.Status.GetPhase() != jobexecv1.Status_TERMINATED {
		e.Output = &crdv1.JobOutput{State: crdv1.OutputLost, Message: why.Message + "."}
	}
	t := crdv1.JobTerminated{Reason: why.Reason, Message: message, Retryable: true}
	if c := in.over(); c != nil {
		t = crdv1.JobTerminated{Canceled: c.canceled, Reason: c.Reason, Message: c.Message + " " + message}
	}
	return in.end(out, t)
}

// unbegin records that a job waits for another pod.
func (in Input) unbegin(out Step, why Why) Step {
	count := out.Execution.Count
	if why.Reason == ReasonNotBegun {
		count--
	}
	out.Execution, out.Runner = nil, nil
	if count > 0 {
		out.Execution = &crdv1.JobExecution{Count: count}
	}
	out.wait(why)
	return out
}

// ended is the step of a job that has ended: it records the rest of its results.
func (in Input) ended(out Step) Step {
	e, r := out.Execution, in.Runner
	if e == nil || !e.Begun {
		out.Settled = true
		return out
	}
	if e.Output == nil {
		switch silent := r.Silent != "" && in.quiet() >= patience; {
		case r.Status.GetArtifactsComplete():
			in.report(&out, r.Status)
		case r.Gone || r.Unknown || silent:
			e.Output = &crdv1.JobOutput{State: crdv1.OutputLost, Message: fmt.Sprintf("Pod %s was lost before the artifacts were stored.", pod(in.Job))}
			e.Artifacts = in.missing(e.Artifacts)
			if silent {
				out.Drain = crdv1.DrainingFailed
			}
		default:
			if out.Follow = true; r.Silent != "" {
				out.After = patience - in.quiet()
			}
		}
	}
	if o := e.Output; o != nil && o.State == crdv1.OutputKept {
		in.unstored(o)
		why, unstored := dropped(r.Pod), o.Message
		lost, leaving := r.Dropped || r.Status.GetDropped() != "", why != "" || r.Gone || r.Unknown
		switch {
		case r.Stored && (lost || leaving || r.Status.GetReleased() || leaves(r.Pod)):
			o.State = crdv1.OutputStored
		case r.Storing && (lost || leaving || r.Status.GetReleased()): // The bucket may have them.
		case lost:
			o.State, o.Message = crdv1.OutputLost, fmt.Sprintf("They were deleted in pod %s, before they were read, for a later job that needed the space. %s", pod(in.Job), unstored)
		case r.Status.GetReleased(), r.Released && (leaving || leaves(r.Pod)):
			o.State = crdv1.OutputReleased
		case leaving:
			o.State, o.Message = crdv1.OutputLost, cmp.Or(why, fmt.Sprintf("Pod %s has them no longer. They are lost, unless they were read before.", pod(in.Job)))+" "+unstored
		case leaves(r.Pod): // Until they are read, or dropped.
			out.Follow, out.Await = true, true
		}
		o.Message = strings.TrimSuffix(o.Message, " ")
	}
	out.Settled = e.Output != nil
	if r.Status.GetEnding().GetLeftover() {
		out.Drain = crdv1.DrainingLeftover
	}
	return out
}

// missing returns the states of all artifacts of the job: those that are not known yet have a problem.
func (in Input) missing(known []crdv1.JobArtifactState) []crdv1.JobArtifactState {
	for _, a := range in.Job.Spec.Artifacts {
		if !slices.ContainsFunc(known, func(s crdv1.JobArtifactState) bool { return s.Path == a.Path }) {
			known = append(known, crdv1.JobArtifactState{Path: a.Path, Problem: "The pod was lost before it was stored."})
		}
	}
	return known
}

// leaves reports whether a pod gets no other job, and is kept for its results.
func leaves(p *corev1.Pod) bool {
	return p != nil && p.Annotations[crdv1.AnnotationDraining] != "" && p.Labels[crdv1.AssignedJobLabel] == ""
}

// dropped returns why results in a pod were dropped; empty if they were not.
func dropped(p *corev1.Pod) string {
	if p == nil {
		return ""
	}
	return p.Annotations[crdv1.AnnotationJobResultsDropped]
}
