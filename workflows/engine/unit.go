package engine

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/execunit"
	"switchyard.dev/workflows/iocontext"
)

// Reasons of units, in addition to those of package execunit.
const (
	// ReasonInputMissing: a value that it reads was never given.
	ReasonInputMissing = "InputMissing"
	// ReasonDeadlineExceeded: it has reached its deadline.
	ReasonDeadlineExceeded = "DeadlineExceeded"
	// ReasonPodGone: its pod was deleted before its result was read.
	ReasonPodGone = "PodGone"
	// ReasonRetrying: its pod ended through no fault of its script, and it begins again.
	ReasonRetrying = "Retrying"
	// ReasonNothingToDo: the resources that it would remove were never created.
	ReasonNothingToDo = "NothingToDo"
	// ReasonTriedOften: it has had the maximum number of attempts.
	ReasonTriedOften = "TriedTooOften"
)

// How long an attempt waits after one that ended through no fault of the script, and how many
// attempts there are without a request for more.
const (
	firstPause, longestPause = 2 * time.Second, 2 * time.Minute
	mostAttempts             = 12
)

// Form returns a hash of the specification of a unit.
func Form(u crdv1.WorkUnit) string {
	text, err := json.Marshal(u)
	if err != nil {
		return "" // Never: it came as JSON.
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// restart resets units that failed or were lost: for a new retry request, or because the failed
// unit has another form now.
func (p *planning) restart(u crdv1.WorkUnit, st *crdv1.WorkUnitStatus) {
	asked := p.Retry != "" && p.Retry != st.Retried
	if asked {
		st.Retried = p.Retry
	}
	changed := st.Phase == crdv1.UnitFailed && st.Form != "" && st.Form != Form(u)
	if (asked || changed) && inTrouble(*st) && !p.Ending {
		*st = crdv1.WorkUnitStatus{Name: st.Name, Phase: crdv1.UnitPending, Attempt: st.Attempt, Retried: st.Retried}
	}
}

// step updates the status of a running unit from its pod.
func (p *planning) step(u crdv1.WorkUnit, st *crdv1.WorkUnitStatus) {
	switch st.Phase {
	case crdv1.UnitRunning:
		pod, there := p.Pods[u.Name]
		if !there || pod.UID != st.PodUID {
			p.interrupted(u, st, execunit.Observation{State: execunit.Interrupted, Begun: true, Reason: ReasonPodGone,
				Message: fmt.Sprintf("The pod of step %q was deleted before its result was read.", u.Name)})
			return
		}
		p.watch(u, st, pod)
		if st.Phase != crdv1.UnitRunning {
			st.Grant = ""
		}
	case crdv1.UnitStarting:
		if p.overdue(st) {
			fail(st, p.Now, st.Reason, st.Message)
		} else if p.Ending {
			skip(st, p.Now, fmt.Sprintf("Step %q has not begun.", u.Name))
		}
	}
}

// watch updates a unit from its pod. A pod without a grant, which an earlier version of the
// operator has created, and a pod of an earlier form of the unit get no inputs: they are deleted
// if their script has not begun.
func (p *planning) watch(u crdv1.WorkUnit, st *crdv1.WorkUnitStatus, pod Pod) {
	stale := st.Form != "" && st.Form != Form(u)
	if (st.Grant == "" || stale) && !pod.Begun && !pod.Deleting && !pod.Over {
		p.out.End = append(p.out.End, u.Name)
	}
	p.unanswered(&pod)
	pod.Message = Sentence(pod.Message)
	st.Reason, st.Message = pod.Reason, pod.Message
	switch pod.State {
	case execunit.Succeeded:
		st.Phase, st.Finished = crdv1.UnitSucceeded, &p.Now
		st.Reason, st.Message, st.Outputs = "", "", outputs(u)
	case execunit.Failed:
		fail(st, p.Now, pod.Reason, pod.Message)
	case execunit.Interrupted:
		if pod.Over {
			p.interrupted(u, st, pod.Observation)
			return
		}
		p.bound(u, st, pod) // It may still complete.
	case execunit.Delivering: // There is no deadline: its script has ended, and must not run again.
	case execunit.Waiting, execunit.Running:
		p.bound(u, st, pod)
	}
}

// patience is the time that a pod has for its volumes, or a container of the operator for its request to
// io-context-server, before the status of the step reports the wait.
const patience = 30 * time.Second

// unanswered gives a pod the reason of a wait that has lasted for patience. The failure of a script stays
// in the message.
func (p *planning) unanswered(pod *Pod) {
	asking := pod.Asking
	if asking == nil || pod.Reason != "" && execunit.Blocked(pod.Reason) {
		return
	}
	if left := asking.Since.Add(patience).Sub(p.Now.Time); left > 0 {
		p.after(left)
		return
	}
	if pod.State == execunit.Delivering && pod.Reason != "" { // The script failed.
		pod.Message = strings.TrimSpace(pod.Message) + " " + Sentence(asking.Message)
		return
	}
	pod.Reason, pod.Message = asking.Reason, asking.Message
}

// bound ends a unit at its deadline, or one that has not begun while the graph ends.
func (p *planning) bound(u crdv1.WorkUnit, st *crdv1.WorkUnitStatus, pod Pod) {
	switch {
	case p.overdue(st):
		p.out.End = append(p.out.End, u.Name)
		fail(st, p.Now, ReasonDeadlineExceeded, fmt.Sprintf("Step %q has not ended within %s (workflows.unitDeadline)%s", u.Name, p.Deadline, because(pod.Message)))
	case p.Ending && !pod.Begun && !pod.Deleting:
		p.out.End = append(p.out.End, u.Name)
	}
}

// interrupted handles a pod that ended through no fault of the script.
func (p *planning) interrupted(u crdv1.WorkUnit, st *crdv1.WorkUnitStatus, pod execunit.Observation) {
	st.Finished, st.Grant = &p.Now, ""
	switch {
	case pod.Begun && (p.Ending || !mayRepeat(u)):
		st.Phase, st.Reason, st.Message = crdv1.UnitLost, pod.Reason, strings.TrimSuffix(pod.Message, ".")+tryAgain
	case p.Ending:
		skip(st, p.Now, fmt.Sprintf("The script of step %q has not begun.", u.Name))
	case st.Attempt%mostAttempts == 0:
		fail(st, p.Now, ReasonTriedOften, fmt.Sprintf("Step %q was begun %d times%s", u.Name, st.Attempt, because(pod.Message)))
	default:
		st.Phase, st.Reason, st.Message = crdv1.UnitPending, ReasonRetrying, pod.Message
		st.ExecUnit, st.PodUID, st.Grant, st.Started = nil, "", "", nil
	}
}

// tryAgain ends a sentence with how to request another attempt.
const tryAgain = " (annotation " + crdv1.AnnotationRetry + " asks for another attempt)."

// because ends a sentence with the problem of a pod; text may be empty.
func because(text string) string {
	if text == "" {
		return "."
	}
	return ": " + strings.ToLower(text[:1]) + text[1:]
}

// Sentence returns a text with a capital at its beginning.
func Sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// mayRepeat reports whether the script of a unit may run again although it may have completed.
func mayRepeat(u crdv1.WorkUnit) bool {
	return u.ExecUnitTemplate != nil && u.ExecUnitTemplate.PodTemplate.Annotations[crdv1.AnnotationRetryLost] == "true"
}

// pause returns how long a unit has to wait before its next attempt.
func (p *planning) pause(st *crdv1.WorkUnitStatus) time.Duration {
	if st.Reason != ReasonRetrying || st.Finished == nil {
		return 0
	}
	wait := longestPause
	if n := st.Attempt - 1; n >= 0 && n < 8 {
		wait = min(longestPause, firstPause<<n)
	}
	return st.Finished.Add(wait).Sub(p.Now.Time)
}

// overdue reports whether a unit has reached its deadline; else it requests a call at the
// deadline.
func (p *planning) overdue(st *crdv1.WorkUnitStatus) bool {
	if p.Deadline <= 0 || st.Started == nil {
		return false
	}
	left := st.Started.Add(p.Deadline).Sub(p.Now.Time)
	if left > 0 {
		p.after(left)
	}
	return left <= 0
}

// Unnamed reports whether a unit needs a name for the pod of its next attempt: none is recorded in the
// namespace where it runs.
func Unnamed(st crdv1.WorkUnitStatus, namespace string) bool {
	return st.Phase != crdv1.UnitStarting || st.ExecUnit == nil || st.ExecUnit.Namespace != namespace
}

// Named returns the status of a unit with the pod recorded for its next attempt. The pod does not
// exist yet, and the time of the attempt has not begun: a manager may have to wait before it can create
// the pod.
func Named(u crdv1.WorkUnit, st crdv1.WorkUnitStatus, pod crdv1.NamespacedName) crdv1.WorkUnitStatus {
	if st.Phase != crdv1.UnitStarting {
		st.Phase, st.Started, st.Finished, st.Form = crdv1.UnitStarting, nil, nil, Form(u)
		st.Reason, st.Message = "", ""
	}
	st.ExecUnit, st.PodUID, st.Grant = &pod, "", ""
	return st
}

// Began returns the status of a unit after the recorded pod of its next attempt was created.
// grant is the operator's signature on the pod.
func Began(u crdv1.WorkUnit, st crdv1.WorkUnitStatus, uid, grant string, now metav1.Time) crdv1.WorkUnitStatus {
	return crdv1.WorkUnitStatus{
		Name: u.Name, Phase: crdv1.UnitRunning, Attempt: st.Attempt + 1, Form: Form(u), Retried: st.Retried,
		ExecUnit: st.ExecUnit, PodUID: uid, Grant: grant, Started: cmp.Or(st.Started, &now),
	}
}

// Refused returns the status of a unit after the API server has refused its pod.
func Refused(st crdv1.WorkUnitStatus, reason, message string, now metav1.Time) crdv1.WorkUnitStatus {
	st.Reason, st.Message, st.Started = reason, message, cmp.Or(st.Started, &now)
	return st
}

// Renamed returns the status of a unit that needs another pod name because a pod has the recorded
// name: a manager crashed before it recorded the UID, or another user created the pod. No pod is
// adopted.
func Renamed(st crdv1.WorkUnitStatus, reason, message string, now metav1.Time) crdv1.WorkUnitStatus {
	st.ExecUnit, st.Reason, st.Message, st.Started = nil, reason, message, cmp.Or(st.Started, &now)
	return st
}

// outputs returns the names of a unit's outputs.
func outputs(u crdv1.WorkUnit) []string {
	return lists.Map(u.Outputs, func(o crdv1.WorkUnitOutput) string { return o.Name })
}

// Keys returns the keys of all outputs of units.
func Keys(units []crdv1.WorkUnit) []string {
	var out []string
	for _, u := range units {
		for _, o := range u.Outputs {
			out = append(out, iocontext.OutputKey(u.Name, o.Name))
		}
	}
	return out
}

func fail(st *crdv1.WorkUnitStatus, now metav1.Time, reason, message string) {
	st.Phase, st.Reason, st.Message, st.Finished = crdv1.UnitFailed, reason, message, &now
}

func skip(st *crdv1.WorkUnitStatus, now metav1.Time, message string) {
	st.Phase, st.Reason, st.Message, st.Finished = crdv1.UnitSkipped, ReasonNothingToDo, message, &now
}

// begun reports whether a unit was ever begun.
func begun(st crdv1.WorkUnitStatus) bool { return st.Attempt > 0 && st.Phase != crdv1.UnitSkipped }

// ended reports whether a unit has succeeded or was skipped.
func ended(st crdv1.WorkUnitStatus) bool {
	return st.Phase == crdv1.UnitSucceeded || st.Phase == crdv1.UnitSkipped
}

// inTrouble reports whether a unit has failed or was lost.
func inTrouble(st crdv1.WorkUnitStatus) bool {
	return st.Phase == crdv1.UnitFailed || st.Phase == crdv1.UnitLost
}
