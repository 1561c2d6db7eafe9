// Package trim removes fields that no controller reads from objects in the manager's cache. It is pure.
package trim

import (
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// longestTold is the number of bytes that are kept of a message about a container: enough to name a
// missing object.
const longestTold = 512

// Troubles reads the fields of a fork's pod that show why it does not start, and returns a function
// that writes them back into the trimmed pod. For other pods the function does nothing.
func Troubles(p *corev1.Pod) func(*corev1.Pod) {
	if p.Labels[crdv1.LabelForkedWorkload] == "" {
		return func(*corev1.Pod) {}
	}
	was, gates := p.Status, p.Spec.ReadinessGates
	return func(p *corev1.Pod) {
		keepGates(p, gates, was.Conditions)
		for _, c := range was.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: truncated(c.Message)})
			}
		}
		keepStates(p.Status.ContainerStatuses, was.ContainerStatuses)
		keepStates(p.Status.InitContainerStatuses, was.InitContainerStatuses)
	}
}

// keepGates keeps the readiness gates of a pod, and the conditions that show whether it waits for one.
func keepGates(p *corev1.Pod, gates []corev1.PodReadinessGate, conditions []corev1.PodCondition) {
	if len(gates) == 0 {
		return
	}
	p.Spec.ReadinessGates = gates
	for _, c := range conditions {
		is := func(g corev1.PodReadinessGate) bool { return g.ConditionType == c.Type }
		if c.Type == corev1.ContainersReady || c.Type == corev1.PodReady || slices.ContainsFunc(gates, is) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: c.Type, Status: c.Status, Message: truncated(c.Message)})
		}
	}
}

// NotReady returns the condition Ready of a pod if it is not True. The containers of a pod on a node that does not answer stay ready.
func NotReady(p *corev1.Pod) []corev1.PodCondition {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status != corev1.ConditionTrue && len(p.Spec.ReadinessGates) == 0 { // else Troubles does
			return []corev1.PodCondition{{Type: c.Type, Status: c.Status}}
		}
	}
	return nil
}

// again caps the recorded restart count: a container that was restarted this often counts as crash-looping.
const again = 2

// keepStates copies to statuses the waiting reasons of containers that are not ready, and how they
// terminated. Both lists have the same containers in the same order.
func keepStates(into, from []corev1.ContainerStatus) {
	for i := range into {
		s := from[i]
		if s.Ready {
			continue
		}
		if w := s.State.Waiting; w != nil {
			into[i].State.Waiting = &corev1.ContainerStateWaiting{Reason: w.Reason, Message: truncated(w.Message)}
		}
		into[i].RestartCount = min(s.RestartCount, again)
		into[i].State.Terminated = ending(s.State.Terminated)
		into[i].LastTerminationState.Terminated = ending(s.LastTerminationState.Terminated)
	}
}

// ending returns the exit code and reason of a terminated container. Its termination message is dropped unless
// the runtime wrote it: programs can write any content, and a different one each time.
func ending(t *corev1.ContainerStateTerminated) *corev1.ContainerStateTerminated {
	if t == nil {
		return nil
	}
	out := &corev1.ContainerStateTerminated{ExitCode: t.ExitCode, Reason: t.Reason}
	if t.Reason == "StartError" || t.Reason == "ContainerCannotRun" { // The runtime's message.
		out.Message = truncated(t.Message)
	}
	return out
}

// truncated returns a copy of a message that is too long, at a character boundary.
func truncated(message string) string {
	if len(message) <= longestTold {
		return message
	}
	cut := message[:longestTold]
	for !utf8.ValidString(cut) && len(cut) > longestTold-utf8.UTFMax {
		cut = cut[:len(cut)-1]
	}
	return strings.TrimSpace(cut) + "…"
}

// Selector leaves of a PodDisruptionBudget which pods count for it.
func Selector(o metav1.Object) {
	b, ok := o.(*policyv1.PodDisruptionBudget)
	if !ok {
		return
	}
	b.ManagedFields, b.Annotations = nil, nil
	b.Spec = policyv1.PodDisruptionBudgetSpec{Selector: b.Spec.Selector}
	b.Status = policyv1.PodDisruptionBudgetStatus{}
}
