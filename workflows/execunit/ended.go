package execunit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/workflows/iocontext"
)

// ended returns the observation of a pod with a main container that has ended.
func (l view) ended() Observation {
	main := *l.main.State.Terminated
	if main.Reason == unknownStatus {
		return l.interrupted(*cmp.Or(l.gone(), &outOfSight))
	}
	if main.ExitCode == 0 {
		return l.delivered()
	}
	if cause := l.causeOf(main); cause != nil {
		return l.interrupted(*cause)
	}
	o := Observation{State: Failed}
	o.Reason, o.Message = l.failure(main)
	// Outputs that the wrapper has left are handed in all the same; a killed container has left
	// none, and neither has one that could not write the volume.
	if said, spoke := endingOf(&main); spoke && said.Reason != iocontext.VolumeFailed && l.output.State.Terminated == nil && !l.over {
		o.State = Delivering
	}
	return o
}

// delivered returns the observation of a pod after its script has ended with 0.
func (l view) delivered() Observation {
	handed := l.output.State.Terminated
	switch {
	case handed == nil && !l.over:
		o := Observation{State: Delivering}
		o.Reason, o.Message = l.stuck()
		return o
	case handed != nil && handed.ExitCode == 0, !l.Outputs:
		return Observation{State: Succeeded}
	}
	said, spoke := endingOf(handed)
	if spoke && !slices.Contains(notItsFault, said.Reason) {
		return Observation{State: Failed, Reason: cmp.Or(said.Reason, ReasonOutputRefused),
			Message: fmt.Sprintf("the script of %s ended with 0, but its outputs were not kept: %s%s",
				l.Owner, cmp.Or(sentence(said.Message), "check the log of the container "+OutputManager+"."), lastLines(said.Tail))}
	}
	why := "its pod ended before that"
	if said.Message != "" {
		why = strings.TrimSuffix(sentence(said.Message), ".")
	}
	return Observation{State: Interrupted, Reason: ReasonOutputsLost,
		Message: fmt.Sprintf("the script of %s ended with 0 in the pod %s, but its outputs were not kept: %s. Check its results, and let it run again where that does no harm.",
			l.Owner, l.name(), why)}
}

// notItsFault are the reasons of the managers that no unit can cause.
var notItsFault = []string{
	iocontext.ServerUnreachable, iocontext.TokenRefused, iocontext.NotYours, iocontext.UnitChanged, iocontext.VolumeFailed, iocontext.MainKilled, iocontext.TryAgain, iocontext.NotYet,
}

// name returns the namespace and name of the pod.
func (l view) name() string { return l.pod.Namespace + "/" + l.pod.Name }

// unknownStatus is the reason of a container with an unknown end.
const unknownStatus = "ContainerStatusUnknown"

// outOfSight is the ending of a pod when it is unknown how it ended.
var outOfSight = ending{reason: ReasonNodeLost, how: "ended, and its node did not report how"}

// failure returns why a script that ended with another code than 0 failed.
func (l view) failure(t corev1.ContainerStateTerminated) (reason, message string) {
	said, spoke := endingOf(&t)
	unit := l.Owner
	switch {
	case t.Reason == "OOMKilled":
		return ReasonOutOfMemory, fmt.Sprintf("the script of %s was killed, since it needed more memory than the limit of the container %s. Raise resources.limits.memory there.%s",
			unit, l.Main, lastLines(said.Tail))
	case neverRan(t):
		return ReasonContainerStart, fmt.Sprintf("the container %s of %s could not be started: %s", l.Main, unit, sentence(t.Message))
	case spoke && said.Message != "":
		return cmp.Or(said.Reason, ReasonScriptFailed), fmt.Sprintf("%s: %s%s", unit, sentence(said.Message), lastLines(said.Tail))
	default:
		return cmp.Or(said.Reason, ReasonScriptFailed), fmt.Sprintf("the script of %s ended with exit code %d. Check its log: kubectl logs -n %s %s -c %s.%s",
			unit, t.ExitCode, l.pod.Namespace, l.pod.Name, l.Main, lastLines(said.Tail))
	}
}

// ending is an external cause of a pod's end.
type ending struct {
	reason string
	// how is the rest of a sentence that begins with the pod.
	how string
	// at is since when; zero if it is unknown.
	at metav1.Time
}

// interrupted returns the observation of a pod that was ended by e.
func (l view) interrupted(e ending) Observation {
	if e.reason == ReasonDeadlineExceeded {
		advice := "Check its results so far, and let the script do less or have more time"
		if !l.begun() {
			advice = "Its script had not begun: see why with kubectl describe pod, or give it more time"
		}
		return Observation{State: Failed, Reason: e.reason, Message: fmt.Sprintf(
			"the pod %s of %s %s. %s (workflows.unitDeadline of the operator's chart, activeDeadlineSeconds of the pod template).", l.name(), l.Owner, e.how, advice)}
	}
	begun := "before its script began. It is tried again"
	if l.begun() {
		begun = "and it is unknown how far its script was. Check its results, and let it run again where that does no harm"
	}
	return Observation{State: Interrupted, Reason: e.reason, Message: fmt.Sprintf("the pod %s of %s %s, %s.", l.name(), l.Owner, e.how, begun)}
}

// causeOf returns the external cause that ended the main container; nil when it ended before that
// cause, or there is none.
func (l view) causeOf(t corev1.ContainerStateTerminated) *ending {
	cause := l.gone()
	if cause == nil || neverRan(t) || t.Reason == "OOMKilled" || !cause.at.IsZero() && t.FinishedAt.Before(&cause.at) {
		return nil
	}
	return cause
}

// gone returns the external cause of the pod's end, past or imminent; nil when there is none.
func (l view) gone() *ending {
	if l.pod.Status.Reason == ReasonDeadlineExceeded {
		e := &ending{reason: ReasonDeadlineExceeded, how: "was there for longer than it may be"}
		if seconds := l.pod.Spec.ActiveDeadlineSeconds; seconds != nil && l.pod.Status.StartTime != nil {
			e.how = fmt.Sprintf("was there for longer than the %d seconds that it may be", *seconds)
			e.at = metav1.NewTime(l.pod.Status.StartTime.Add(time.Duration(*seconds) * time.Second))
		}
		return e
	}
	if c := l.condition(corev1.DisruptionTarget); c != nil {
		e := disrupted(c.Reason)
		e.at = c.LastTransitionTime
		return &e
	}
	if e, known := byKubelet[l.pod.Status.Reason]; known && l.over {
		return &e
	}
	if l.over && strings.HasPrefix(l.pod.Status.Reason, "OutOf") {
		return &ending{reason: ReasonPodRejected, how: "was sent to a node that had no room for it"}
	}
	if at := l.pod.DeletionTimestamp; at != nil {
		e := &ending{reason: ReasonPodDeleted, how: "was deleted"}
		if seconds := l.pod.DeletionGracePeriodSeconds; seconds != nil {
			e.at = metav1.NewTime(at.Add(-time.Duration(*seconds) * time.Second))
		}
		return e
	}
	return nil
}

// disrupted converts a reason of the condition DisruptionTarget.
func disrupted(reason string) ending {
	switch reason {
	case corev1.PodReasonPreemptionByScheduler:
		return ending{reason: ReasonPreempted, how: "had to make room for a pod of higher priority"}
	case "DeletionByTaintManager", deletionByPodGC:
		return ending{reason: ReasonNodeLost, how: "was lost with its node"}
	default:
		return ending{reason: ReasonEvicted, how: "was evicted from its node"}
	}
}

// byKubelet converts the kubelet's reasons of a pod that is over.
var byKubelet = map[string]ending{
	"Evicted":                  {reason: ReasonEvicted, how: "was evicted from its node"},
	"Preempting":               {reason: ReasonPreempted, how: "had to make room for a pod of higher priority"},
	"Terminated":               {reason: ReasonNodeLost, how: "ended with its node, which was shut down"},
	"NodeShutdown":             {reason: ReasonNodeLost, how: "was sent to a node that is being shut down"},
	"Shutdown":                 {reason: ReasonNodeLost, how: "ended with its node, which was shut down"},
	"NodeLost":                 {reason: ReasonNodeLost, how: "was lost with its node"},
	"NodeAffinity":             {reason: ReasonPodRejected, how: "was sent to a node that it does not fit"},
	"UnexpectedAdmissionError": {reason: ReasonPodRejected, how: "was refused by its node"},
}

// withoutEnd returns the observation of a pod that is over with a main container of unknown end.
func (l view) withoutEnd() Observation {
	if l.main.State.Running != nil {
		return l.interrupted(outOfSight)
	}
	unit := l.Owner
	for _, s := range l.pod.Status.InitContainerStatuses {
		t := s.State.Terminated
		if t == nil || t.ExitCode == 0 {
			continue
		}
		said, spoke := endingOf(t)
		switch {
		case s.Name == InputManager && spoke && !slices.Contains(notItsFault, said.Reason):
			return Observation{State: Failed, Reason: cmp.Or(said.Reason, ReasonInputRefused),
				Message: fmt.Sprintf("the script of %s was not run, since its inputs could not be handed to it: %s", unit, sentence(said.Message))}
		case s.Name == InputManager:
			return Observation{State: Interrupted, Reason: cmp.Or(said.Reason, ReasonInitFailed), Message: fmt.Sprintf(
				"the container %s of %s ended with exit code %d before its script began: %s", s.Name, unit, t.ExitCode, cmp.Or(sentence(said.Message), "it gave no reason."))}
		}
		return Observation{State: Failed, Reason: ReasonInitFailed, Message: fmt.Sprintf(
			"the init container %s of %s ended with exit code %d, so its script was not run. Check its log: kubectl logs -n %s %s -c %s.",
			s.Name, unit, t.ExitCode, l.pod.Namespace, l.pod.Name, s.Name)}
	}
	// A node that reports a reason would report it again. One that does not may have been out of
	// resources.
	state, why := Failed, cmp.Or(sentence(l.pod.Status.Message), sentence(l.pod.Status.Reason))
	if why == "" {
		state, why = Interrupted, "its node gave no reason."
	}
	return Observation{State: state, Reason: ReasonPodFailed, Message: fmt.Sprintf("the pod %s of %s failed before its script began: %s", l.name(), unit, why)}
}
