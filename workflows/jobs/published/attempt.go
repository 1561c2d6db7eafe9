package published

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "switchyard.dev/protos/controlplane/v2"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/jobs"
)

// Phase is that of a job.
type Phase string

// Phases of a job. The last three are final.
const (
	Queued    Phase = "queued"
	Running   Phase = "running"
	Failed    Phase = "failed"
	Succeeded Phase = "succeeded"
	Canceled  Phase = "canceled"
)

// Final reports whether a job in this phase has ended.
func (p Phase) Final() bool { return p != Queued && p != Running }

// Causes of the phase canceled.
const (
	CanceledByTimeout  = "timeout"
	CanceledByRequest  = "apiRequest"
	CanceledInternally = "internal"
)

// Attempt is the state of the only attempt of a job.
type Attempt struct {
	Phase Phase `json:"phase"`
	// Seen: the object was seen in the cluster.
	Seen bool `json:"seen,omitempty"`
	// Executions counts those that have begun, with the present one.
	Executions int32 `json:"executions,omitempty"`
	// UID is that of the object, PodUID that of the pod of the execution, PodName and PodNamespace its name.
	UID          string `json:"uid,omitempty"`
	PodUID       string `json:"podUID,omitempty"`
	PodName      string `json:"podName,omitempty"`
	PodNamespace string `json:"podNamespace,omitempty"`
	// StartedAt and FinishedAt are those of the script.
	StartedAt  time.Time `json:"startedAt,omitzero"`
	FinishedAt time.Time `json:"finishedAt,omitzero"`
	// Reason is a word for programs, Message a text for people: why it waits, or how it has ended.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// ExitCode is that of the script; nil: it has none.
	ExitCode *int32 `json:"exitCode,omitempty"`
	// CanceledBy is one of the causes; InCluster: the cluster has canceled it.
	CanceledBy string `json:"canceledBy,omitempty"`
	InCluster  bool   `json:"inCluster,omitempty"`
	// Retryable: running it again may help.
	Retryable bool `json:"retryable,omitempty"`
	// Caveat is why requests may not have had the routing key; empty: they had it, or the job asked for none.
	Caveat string `json:"caveat,omitempty"`
	// Output is where the output is: crdv1.OutputKept, OutputReleased, OutputLost; empty: there is none.
	Output string `json:"output,omitempty"`
}

// Ended returns the attempt with an end that is not that of a script.
func (a Attempt) Ended(phase Phase, by, reason, message string, at time.Time) Attempt {
	a.Phase, a.CanceledBy, a.Reason, a.Message, a.FinishedAt = phase, by, reason, message, at
	return a
}

// AttemptOf returns the only attempt of a Job. A timeout is a cancelation.
func AttemptOf(o *crdv1.Job) Attempt {
	a := Attempt{Phase: Queued, Seen: true, UID: string(o.UID)}
	if r := o.Status.Runner; r != nil {
		a.PodName, a.PodNamespace = r.RunnerPod.Name, r.RunnerPod.Namespace
	}
	if e := o.Status.Execution; e != nil {
		a.Executions, a.PodUID = e.Count, e.PodUID
		if e.Output != nil && e.Output.State == crdv1.OutputLost {
			a.Output = crdv1.OutputLost
		} else if e.Begun {
			a.Output = crdv1.OutputKept // or released: it is in the artifact store
		}
	}
	switch st := o.Status.State; {
	case st == nil:
	case st.Terminated != nil:
		a.end(*st.Terminated)
		if c := crdv1.FindCondition(o.Status.Conditions, crdv1.ConditionCaveats); c != nil && c.Status == "True" {
			a.Caveat = c.Message
		}
	case st.Running != nil:
		a.Phase, a.StartedAt = Running, at(st.Running.StartedAt)
	case st.Waiting != nil:
		a.Reason, a.Message = st.Waiting.Reason, st.Waiting.Message
	}
	return a
}

// end records the end of a script, or the reason why none began.
func (a *Attempt) end(t crdv1.JobTerminated) {
	a.StartedAt, a.FinishedAt, a.Reason, a.Message, a.ExitCode = at(t.StartedAt), at(t.FinishedAt), t.Reason, t.Message, t.ExitCode
	a.Retryable = t.Retryable
	switch {
	case t.Success:
		a.Phase = Succeeded
	case t.TimedOut:
		a.Phase, a.CanceledBy, a.InCluster = Canceled, CanceledByTimeout, true
	case t.Canceled && t.Reason == jobs.ReasonCanceled:
		a.Phase, a.CanceledBy, a.InCluster = Canceled, CanceledByRequest, true
	case t.Canceled:
		a.Phase, a.CanceledBy, a.InCluster = Canceled, CanceledInternally, true
	default:
		a.Phase = Failed
	}
}

// Report returns an attempt as the published API has it.
func (a Attempt) Report(created time.Time) v2.JobsAttempt {
	out := v2.JobsAttempt{Caveat: orNil(a.Caveat), ExecutionCount: int(a.Executions), Phase: v2.JobsPhase(a.Phase), CreatedAt: stamp(created), StartedAt: when(a.StartedAt), FinishedAt: when(a.FinishedAt)}
	switch a.Phase {
	case Queued:
		out.State.Queued = &v2.JobsQueuedState{Message: orNil(a.Message)}
	case Running:
		out.State.Running = &v2.JobsRunningState{PodName: orNil(a.PodName), PodNamespace: orNil(a.PodNamespace)}
	case Succeeded:
		out.State.Succeeded = &v2.JobsSucceededState{ExitCode: new(0)}
	case Canceled:
		by := v2.JobsCanceledBy(a.CanceledBy)
		out.State.Canceled = &v2.JobsCanceledState{CanceledBy: &by, CanceledAt: when(a.FinishedAt), InCluster: &a.InCluster, Message: orNil(a.Message)}
	default:
		out.State.Failed = &v2.JobsFailedState{Message: orNil(a.Message), RetryAttempt: &a.Retryable}
		if a.ExitCode != nil {
			out.State.Failed.ExitCode = new(int(*a.ExitCode))
		}
	}
	return out
}

// at returns a time; zero: there is none.
func at(t *metav1.Time) (out time.Time) {
	if t != nil {
		out = t.UTC()
	}
	return out
}

// when returns a time as the API has it; nil: it is zero.
func when(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	return new(stamp(t))
}

// stamp returns a time as the API has it.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
