package execunit

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// asking returns what a pod in this state waits for: io-context-server, or its volumes; nil for none.
func (l view) asking(state State) *Asking {
	log := func(container string) string {
		return fmt.Sprintf("cannot reach io-context-server, or it answers with errors. The log has each attempt: kubectl logs -n %s %s -c %s (check the proxy of a mesh in the pod, and NetworkPolicies).",
			l.pod.Namespace, l.pod.Name, container)
	}
	switch {
	case state == Delivering && l.output.State.Running != nil:
		return &Asking{l.main.State.Terminated.FinishedAt.Time, ReasonOutputsUndelivered,
			fmt.Sprintf("the script of step %s has ended; its outputs cannot be delivered: %s", quoted(l.unit.Name), log(OutputManager))}
	case state == Waiting:
		if input := statusOf(l.pod.Status.InitContainerStatuses, InputManager).State.Running; input != nil {
			return &Asking{input.StartedAt.Time, ReasonInputsUndelivered,
				fmt.Sprintf("the script of step %s has not begun; its inputs cannot be delivered: %s", quoted(l.unit.Name), log(InputManager))}
		}
		return l.volumes()
	}
	return nil
}

// volumes returns the wait of a pod on a node for its volumes; nil once a container has started.
func (l view) volumes() *Asking {
	names, since := mounted(l.pod.Spec), l.pod.CreationTimestamp
	if c := l.condition(corev1.PodScheduled); c != nil {
		since = c.LastTransitionTime
	}
	started := slices.ContainsFunc(l.pod.Status.InitContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.State.Running != nil || s.State.Terminated != nil
	})
	if l.pod.Spec.NodeName == "" || started || len(names) == 0 {
		return nil
	}
	return &Asking{since.Time, ReasonVolumesPending, fmt.Sprintf(
		"the pod %s of step %s waits for its volumes: %s. If it stays so, see that they are in the namespace %s.", l.name(), quoted(l.unit.Name), list(names), l.pod.Namespace)}
}
