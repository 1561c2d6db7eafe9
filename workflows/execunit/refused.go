package execunit

import (
	"fmt"
	"slices"
	"strings"
)

// Refused returns one sentence about a pod of a unit that the API server refuses in a namespace,
// with its message and the remedy. The creation is retried, so that the unit starts once the
// cause is removed.
func Refused(unit, namespace, words string) string {
	// Conditions have two sentences, of which this is one.
	words = strings.TrimSuffix(sentence(words), ".")
	return fmt.Sprintf("The API server refuses the pod of step %s in namespace %s (%s): %s; the step then starts by itself.", quoted(unit), namespace, words, remedyOf(words))
}

// WithoutNamespace is Refused for a namespace that does not exist, or is being deleted.
func WithoutNamespace(unit, namespace string, terminating bool) string {
	state, todo := "does not exist", "create it"
	if terminating {
		state, todo = "is being deleted", "create it again once it is deleted"
	}
	return fmt.Sprintf("Step %s waits, since its namespace %s %s: %s; the step then starts by itself.", quoted(unit), namespace, state, todo)
}

// remedyOf returns the remedy for a pod that the API server refused with this message.
func remedyOf(words string) string {
	const values = "the containers " + InputManager + " and " + OutputManager + " are the operator's: ioInit.resources and ioSidecar.resources of the chart set their resources"
	has := func(some ...string) bool {
		return slices.ContainsFunc(some, func(s string) bool { return strings.Contains(words, s) })
	}
	switch {
	case has("failed quota"):
		return "set the resources that it asks for in the pod template, or defaults in a LimitRange of the namespace; " + values
	case has("exceeded quota"):
		return "raise that quota, or delete objects that it counts"
	case has("usage per Container", "usage per Pod", "limit to request ratio"):
		return "change that LimitRange, or the resources in the pod template; " + values
	case has("PodSecurity"):
		return "change the pod template, or the Pod Security level of the namespace"
	case has(`cannot create resource "pods"`):
		return "give the operator that right: with allowedNamespaces of the chart it works in these namespaces alone"
	}
	return "change the pod template, or the policy that this message names"
}
