package delivery

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/controlplane-link/controlplane/model"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/jobs"
)

// usual are the reasons for waiting that are not recorded: jobs have them for a while, and the status of their runner group
// has the cause.
var usual = map[string]bool{"": true, jobs.ReasonNoIdlePod: true, jobs.ReasonNoPods: true, jobs.ReasonPodsNotReady: true, jobs.ReasonRunnerGroupNotFound: true}

// AttemptOf returns the state of a job that its object reports.
func AttemptOf(o *crdv1.Job, j model.Job) model.Attempt {
	a := model.Attempt{Phase: model.PhaseQueued, Seen: true, UID: string(o.UID)}
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
	st := o.Status.State
	switch {
	case st == nil:
	case st.Terminated != nil:
		return ended(a, *st.Terminated, j)
	case st.Running != nil:
		a.Phase, a.StartedAt = model.PhaseRunning, at(st.Running.StartedAt)
	case st.Waiting != nil:
		a.Reason, a.Message = st.Waiting.Reason, st.Waiting.Message
	}
	return a
}

// ended returns a with the end of a script, or the reason why none began.
func ended(a model.Attempt, t crdv1.JobTerminated, j model.Job) model.Attempt {
	a.StartedAt, a.FinishedAt, a.Reason, a.Message, a.ExitCode = at(t.StartedAt), at(t.FinishedAt), t.Reason, t.Message, t.ExitCode
	switch {
	case t.Success:
		a.Phase = model.PhaseSucceeded
	case t.TimedOut:
		a.Phase, a.CanceledBy, a.InCluster = model.PhaseCanceled, model.CanceledByTimeout, true
	case t.Canceled:
		a.Phase, a.CanceledBy, a.InCluster = model.PhaseCanceled, model.CanceledInternally, true
		if !j.CanceledAt.IsZero() || t.Reason == jobs.ReasonCanceled {
			a.CanceledBy = model.CanceledByRequest
		}
	default:
		a.Phase = model.PhaseFailed
	}
	return a
}

// at returns a time; zero: there is none.
func at(t *metav1.Time) (out time.Time) {
	if t != nil {
		out = t.UTC()
	}
	return out
}
