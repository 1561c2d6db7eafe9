package execunit

import (
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/iocontext"
)

// State is the progress of a unit's pod.
type State string

// The states.
const (
	// Waiting: its main container has not started.
	Waiting State = "Waiting"
	// Running: its main container runs.
	Running State = "Running"
	// Delivering: its main container has ended, and outputs are under way.
	Delivering State = "Delivering"
	// Succeeded: its script ended with 0, and its outputs are kept.
	Succeeded State = "Succeeded"
	// Failed: it ended otherwise, through the unit's own fault.
	Failed State = "Failed"
	// Interrupted: it ended, or ends, through no fault of the unit.
	Interrupted State = "Interrupted"
)

// Reasons for which a pod waits.
const (
	ReasonStarting         = "Starting"
	ReasonUnschedulable    = "Unschedulable"
	ReasonImagePullFailed  = "ImagePullFailed"
	ReasonSecretMissing    = "SecretMissing"
	ReasonConfigMapMissing = "ConfigMapMissing"
	ReasonVolumesPending   = "VolumesPending"
	ReasonContainerConfig  = "ContainerConfigRefused"
	ReasonContainerStart   = "ContainerCannotStart"
	ReasonInitRunning      = "InitContainerRunning"
	// ReasonInputsUndelivered and ReasonOutputsUndelivered: a container of the operator has had no
	// success at io-context-server for long.
	ReasonInputsUndelivered  = "InputsUndelivered"
	ReasonOutputsUndelivered = "OutputsUndelivered"
)

// Blocked reports whether a pod that waits for this reason starts only after a change
// of its template, of an object that it names, or of the cluster.
func Blocked(reason string) bool {
	return slices.Contains([]string{ReasonUnschedulable, ReasonImagePullFailed, ReasonSecretMissing, ReasonConfigMapMissing, ReasonContainerConfig, ReasonContainerStart}, reason)
}

// Reasons for which a pod has ended; reasons from the wrapper and the managers are passed on.
const (
	ReasonScriptFailed     = "ScriptFailed"
	ReasonOutOfMemory      = "OutOfMemory"
	ReasonDeadlineExceeded = "DeadlineExceeded"
	ReasonInitFailed       = "InitContainerFailed"
	ReasonPodFailed        = "PodFailed"
	ReasonOutputsLost      = "OutputsLost"
	ReasonEvicted          = "Evicted"
	ReasonPreempted        = "Preempted"
	ReasonNodeLost         = "NodeLost"
	ReasonPodDeleted       = "PodDeleted"
	ReasonPodRejected      = "PodRejected"
)

// Observation is the state of a unit, as derived from its pod.
type Observation struct {
	State State
	// Begun reports whether the script has started, or may have.
	Begun bool
	// Over reports whether nothing of the pod runs any more, according to its node. A pod that
	// was interrupted and is not over may still complete.
	Over bool
	// Reason and Message are why it is not further, and the remedy.
	Reason, Message string
	// Asking is a wait that is normal if it is short: for io-context-server, to which a container of the
	// operator sends requests, or for volumes; nil when there is none.
	Asking *Asking
}

// Asking is a wait that a step reports only after some time.
type Asking struct {
	// Since is its beginning, at the earliest.
	Since time.Time
	// Reason and Message are those of a step after a long time without success.
	Reason, Message string
}

// Observed is what of a pod is observed, and how messages name it.
type Observed struct {
	Owner
	// Main is the name of the container that is waited for.
	Main string
	// Outputs reports whether its script has outputs to be delivered.
	Outputs bool
	// Pull is the image that is pulled for it; nil: none is known to be.
	Pull *Pull
}

// ObservedOf returns the observed parts of the pod of a unit.
func ObservedOf(u crdv1.WorkUnit, pod *corev1.Pod) Observed {
	return Observed{Owner: OwnerOf(u.Name), Main: MainOf(pod.Spec, OutputManager), Outputs: len(u.Outputs) > 0}
}

// Observe returns the state of the main container of a pod, and of its script.
func Observe(of Observed, pod *corev1.Pod) Observation {
	l := viewOf(of, pod)
	var o Observation
	switch {
	case l.main.State.Terminated != nil:
		o = l.ended()
	case l.gone() != nil:
		o = l.interrupted(*l.gone())
	case l.over:
		o = l.withoutEnd()
	case l.main.State.Running != nil:
		o.State = Running
		o.Reason, o.Message = l.stuck()
	default:
		o = l.waiting()
	}
	o.Begun, o.Over = l.begun(), l.over
	o.Asking = l.asking(o.State)
	o.Message = cut(o.Message, maxMessage)
	return o
}

// Bounds of texts from other programs.
const (
	maxMessage = 2048
	maxTail    = iocontext.MaxTail
	maxText    = 400
)

// view is a pod, with the parts that are observed.
type view struct {
	Observed
	pod          *corev1.Pod
	main, output corev1.ContainerStatus
	// over reports whether nothing of it runs any more.
	over bool
}

// viewOf returns the observed parts of a pod.
func viewOf(of Observed, pod *corev1.Pod) view {
	return view{
		Observed: of, pod: pod, over: pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed,
		main: statusOf(pod.Status.ContainerStatuses, of.Main), output: statusOf(pod.Status.ContainerStatuses, OutputManager),
	}
}

// statusOf returns the status of a container; an empty one when there is none.
func statusOf(all []corev1.ContainerStatus, name string) corev1.ContainerStatus {
	for _, s := range all {
		if s.Name == name {
			return s
		}
	}
	return corev1.ContainerStatus{Name: name}
}

// begun reports whether the script has started, or may have: without the final report of its
// node, a scheduled pod may have started it.
func (l view) begun() bool {
	s := l.main.State
	switch {
	case s.Running != nil:
		return true
	case s.Terminated != nil:
		return !neverRan(*s.Terminated) && !neverCreated(l.main)
	case l.pod.Spec.NodeName == "":
		return false
	case l.over:
		return l.orphaned()
	default:
		return l.pod.DeletionTimestamp != nil
	}
}

// neverRan reports whether the container ended before its program started.
func neverRan(t corev1.ContainerStateTerminated) bool {
	return slices.Contains([]string{"StartError", "ContainerCannotRun"}, t.Reason)
}

// neverCreated reports whether a container ended without ever having been created. When a pod ends, the
// kubelet reports such a container, for example one without an image, with an unknown end.
func neverCreated(s corev1.ContainerStatus) bool {
	return s.State.Terminated.Reason == unknownStatus && s.ContainerID == "" && s.State.Terminated.ContainerID == "" &&
		s.RestartCount == 0 && s.LastTerminationState.Terminated == nil
}

// orphaned reports whether the pod was declared over by another component than its node.
func (l view) orphaned() bool {
	c := l.condition(corev1.DisruptionTarget)
	return c != nil && c.Reason == deletionByPodGC || l.pod.Status.Reason == "NodeLost"
}

// deletionByPodGC is the reason of the condition DisruptionTarget of a pod on a deleted node.
const deletionByPodGC = "DeletionByPodGC"

// condition returns a condition of the pod that is true; nil when it is not.
func (l view) condition(name corev1.PodConditionType) *corev1.PodCondition {
	for i, c := range l.pod.Status.Conditions {
		if c.Type == name && c.Status == corev1.ConditionTrue {
			return &l.pod.Status.Conditions[i]
		}
	}
	return nil
}

// endingOf returns the termination message of a container; false when it is not in the operator's
// format.
func endingOf(t *corev1.ContainerStateTerminated) (iocontext.Ending, bool) {
	if t == nil {
		return iocontext.Ending{}, false
	}
	text := strings.TrimSpace(t.Message)
	e, ours := iocontext.DecodeEnding(text)
	if !ours || !strings.HasPrefix(text, "{") {
		return iocontext.Ending{}, false
	}
	if !word.MatchString(e.Reason) {
		e.Reason = ""
	}
	e.Message, e.Tail = cut(e.Message, maxText), iocontext.Last(cut(e.Tail, maxTail*4), maxTail)
	return e, true
}

// word matches a valid reason.
var word = regexp.MustCompile(`^[A-Z][A-Za-z]{0,63}$`)

// sentence returns a text from another program as one sentence.
func sentence(text string) string {
	text = strings.ReplaceAll(strings.Join(strings.Fields(cut(text, maxText)), " "), ". ", "; ")
	if text == "" || strings.HasSuffix(text, ".") {
		return text
	}
	return text + "."
}

// lastLines returns the end of a message that shows a script's last lines.
func lastLines(tail string) string {
	if tail = strings.TrimSpace(tail); tail == "" {
		return ""
	}
	return "\nIts last lines:\n" + tail
}
