package routingconfig

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/reconcilers/routingkey"
)

// Reasons of conditions of a RoutingConfig.
const (
	ReasonInvalidSpec       = "InvalidSpec"
	ReasonWorkloadsNotFound = "WorkloadsNotFound"
	ReasonLogUnavailable    = publish.ReasonLogUnavailable
)

// Decision is the result of Decide for one RoutingConfig.
type Decision struct {
	// Conditions are those for Accepted, WorkloadsFound, SidecarsReady, NoConflicts and
	// MiddlewaresApplied.
	Conditions condition.Set
	// Declaration is the content of the fact for the log; nil if another object holds the key, or
	// requests cannot carry it.
	Declaration *factv1.RoutingDeclared
}

// Decide computes the declaration of a RoutingConfig that is not being deleted.
func Decide(in Input) Decision {
	d := Decision{Conditions: condition.Set{
		crdv1.ConditionAccepted:             accept(in),
		crdv1.ConditionWorkloadsFound:       found(in),
		baseline.ConditionSidecarsReady:     in.Sidecars(),
		routing.ConditionNoConflicts:        in.NoConflicts(),
		routing.ConditionMiddlewaresApplied: routing.MiddlewaresApplied(in.Config),
	}}
	if in.holds() {
		d.Declaration = in.Declaration()
	}
	return d
}

// accept reports whether the key is one that requests can carry, and free, and every member
// is named.
func accept(in Input) condition.Condition {
	key := in.Config.RoutingKey()
	if problem := routingkey.Problem(key); problem != "" {
		return condition.False(ReasonInvalidSpec, "The routing key "+problem+", in annotation "+crdv1.AnnotationRoutingKey)
	}
	if h := in.holder(); h.UID != in.Config.UID {
		return condition.False(routingkey.ReasonTaken, fmt.Sprintf(
			"Routing key %q is held by RoutingConfig %s, which had it first: choose another key, in annotation %s",
			key, h.Name, crdv1.AnnotationRoutingKey))
	}
	for i, m := range in.Config.Spec.SandboxedWorkloads {
		if !routing.IsComplete(m) {
			return condition.False(ReasonInvalidSpec, fmt.Sprintf(
				"spec.sandboxedWorkloads[%d] lacks kind, namespace or name, and is left out: name a workload", i))
		}
	}
	message := fmt.Sprintf("Routing key %q is held by this object.", key)
	if metav1.GetControllerOfNoCopy(in.Config) != nil { // Its owner has the warning.
		return condition.True("Accepted", message)
	}
	return routingkey.Accepted(key, message)
}

// found returns the condition that every member exists and reports its Services.
func found(in Input) condition.Condition {
	var missing, silent []string
	for _, m := range in.Named() {
		name := routing.NameIn(m).String()
		switch have := in.Member(m); {
		case !in.mayRead(m.Namespace):
			return condition.False(baseline.ReasonNamespaceNotAllowed,
				name+" is in a namespace where the operator may not work: add it to allowedNamespaces, or remove the member")
		case have == nil:
			missing = append(missing, name)
		case have.RoutingInfo() == nil && routing.TakesRequests(have):
			silent = append(silent, name)
		}
	}
	switch {
	case len(missing) > 0:
		message := "There is no " + routing.Some(missing) + ": create it, or remove it from spec.sandboxedWorkloads"
		if slices.ContainsFunc(in.Named(), in.Absent) {
			message += ". Until then, requests with the key get 503 and do not reach its baseline"
		}
		return condition.False(ReasonWorkloadsNotFound, message)
	case len(silent) > 0:
		return condition.False(ReasonWorkloadsNotFound, "It is not known yet how to reach "+routing.Some(silent)+
			": see the condition Ready there")
	}
	return condition.True("WorkloadsFound", fmt.Sprintf("Workloads reachable under the key: %d.", len(in.Named())))
}
