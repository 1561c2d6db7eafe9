// Package trouble finds the cause why pods of a fork do not start. It is pure.
package trouble

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/sidecars/inject"
)

// Trouble is why a pod does not become ready, as a reason for programs and a message for users. It is the
// same in all states of a container that restarts repeatedly, so that no state change causes a write.
type Trouble struct{ Reason, Message string }

// Reasons of troubles.
const (
	// ReasonUnschedulable: no node takes the pod.
	ReasonUnschedulable = "Unschedulable"
	// ReasonImagePull: an image cannot be had.
	ReasonImagePull = "ImagePullBackOff"
	// ReasonConfigError: a container cannot be created, mostly because a ConfigMap, a Secret or a key in
	// one is missing.
	ReasonConfigError = "CreateContainerConfigError"
	// ReasonCrashLoop: a container ends each time it is started.
	ReasonCrashLoop = "CrashLoopBackOff"
	// ReasonReadinessGates: the containers are ready, and a readiness gate of the pod is not set.
	ReasonReadinessGates = "ReadinessGatesNotReady"
)

// severity returns the reasons ordered by how much they explain: an unschedulable pod has no containers, and a
// container without a pulled image never exits.
func severity() []string {
	return []string{ReasonUnschedulable, ReasonImagePull, ReasonConfigError, ReasonCrashLoop, ReasonReadinessGates}
}

// newest returns the pods of the revision that was started last, because problems of earlier revisions are
// already fixed. Times have a resolution of seconds, so the result can contain several revisions.
func newest(pods []corev1.Pod) []corev1.Pod {
	form := func(p *corev1.Pod) string {
		return p.Labels[appsv1.DefaultDeploymentUniqueLabelKey] + "/" + p.Labels[inject.RolloutHash]
	}
	var last metav1.Time
	forms := map[string]bool{}
	for i := range pods {
		p := &pods[i]
		if last.Before(&p.CreationTimestamp) {
			last = p.CreationTimestamp
			clear(forms)
		}
		if p.CreationTimestamp.Equal(&last) {
			forms[form(p)] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool { return !forms[form(&p)] })
}

// Of returns the most telling trouble of those pods of a fork that were started last; false when none
// has any.
// Pods that are being deleted or have ended do not count.
func Of(pods []corev1.Pod) (Trouble, bool) {
	pods = newest(pods)
	var all []Trouble
	for i := range pods {
		if t, ok := OfPod(&pods[i]); ok {
			all = append(all, t)
		}
	}
	if len(all) == 0 {
		return Trouble{}, false
	}
	return slices.MinFunc(all, func(a, b Trouble) int {
		order := severity()
		return cmp.Or(cmp.Compare(slices.Index(order, a.Reason), slices.Index(order, b.Reason)), cmp.Compare(a.Message, b.Message))
	}), true
}

// OfPod returns the trouble of one pod; false if it has none.
func OfPod(p *corev1.Pod) (Trouble, bool) {
	if p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return Trouble{}, false
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Message != "" {
			return Trouble{ReasonUnschedulable, fmt.Sprintf("pod %s gets no node: %s", p.Name, c.Message)}, true
		}
	}
	for _, s := range p.Status.InitContainerStatuses {
		if t, ok := ofContainer(p.Name, "init container "+s.Name, s); ok {
			return t, true
		}
	}
	for _, s := range p.Status.ContainerStatuses {
		if t, ok := ofContainer(p.Name, "container "+s.Name, s); ok {
			return t, true
		}
	}
	return ofGates(p)
}

// ofGates returns the readiness gates that keep a pod with ready containers from being ready.
func ofGates(p *corev1.Pod) (Trouble, bool) {
	status := map[corev1.PodConditionType]corev1.PodCondition{}
	for _, c := range p.Status.Conditions {
		status[c.Type] = c
	}
	if status[corev1.ContainersReady].Status != corev1.ConditionTrue || status[corev1.PodReady].Status == corev1.ConditionTrue {
		return Trouble{}, false
	}
	var waits []string
	for _, g := range p.Spec.ReadinessGates {
		switch c, set := status[g.ConditionType]; {
		case !set:
			waits = append(waits, string(g.ConditionType)+" (not set)")
		case c.Status != corev1.ConditionTrue:
			waits = append(waits, strings.TrimSuffix(fmt.Sprintf("%s (%s: %s", g.ConditionType, c.Status, c.Message), ": ")+")")
		}
	}
	if len(waits) == 0 {
		return Trouble{}, false
	}
	return Trouble{ReasonReadinessGates, fmt.Sprintf("pod %s: its containers are ready, and it waits for readiness gates: %s. If nothing sets them for pods of forks, take them out with a strategic patch: {spec: {template: {spec: {readinessGates: []}}}}",
		p.Name, strings.Join(waits, ", "))}, true
}

// ofContainer returns the trouble of one container. A ready one, and an init container that has
// succeeded, have none.
func ofContainer(pod, container string, s corev1.ContainerStatus) (Trouble, bool) {
	ended := s.State.Terminated
	if s.Ready || ended != nil && ended.ExitCode == 0 && strings.HasPrefix(container, "init ") {
		return Trouble{}, false
	}
	if w := s.State.Waiting; w != nil {
		switch w.Reason {
		case "ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed":
			// ErrImagePull and ImagePullBackOff alternate; both get the same message.
			message := w.Message
			if _, cause, ok := strings.Cut(message, "ErrImagePull: "); ok {
				message = cause
			}
			return Trouble{ReasonImagePull, fmt.Sprintf("pod %s, %s: its image cannot be pulled: %s", pod, container, message)}, true
		case "CreateContainerConfigError", "CreateContainerError":
			return Trouble{ReasonConfigError, fmt.Sprintf("pod %s, %s cannot be made: %s", pod, container, w.Message)}, true
		}
	}
	if !loops(s) {
		return Trouble{}, false // It may serve the next time.
	}
	ended = cmp.Or(ended, s.LastTerminationState.Terminated)
	if ended == nil {
		return Trouble{}, false
	}
	how := fmt.Sprintf("exit code %d", ended.ExitCode)
	if ended.Reason != "" {
		how += " (" + ended.Reason + ")"
	}
	if ended.Message != "" {
		how += ": " + ended.Message
	}
	return Trouble{ReasonCrashLoop, fmt.Sprintf("pod %s, %s ends each time it is started, last with %s", pod, container, how)}, true
}

// loops reports whether a container has exited more than once, or waits for a restart after that. A
// container that exited once, for example because a dependency was not ready, is restarted at once.
func loops(s corev1.ContainerStatus) bool {
	ends := s.RestartCount
	if s.State.Terminated != nil {
		ends++
	}
	return ends > 1 || s.State.Waiting != nil && s.State.Waiting.Reason == "CrashLoopBackOff"
}
