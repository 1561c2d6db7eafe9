package execunit

import "fmt"

// asking returns the container that sends requests to io-context-server in this state of the pod;
// nil for none.
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
	}
	return nil
}
