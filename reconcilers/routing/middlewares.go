package routing

import (
	"fmt"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/condition"
)

// ConditionMiddlewaresApplied is a condition of RoutingConfigs that this operator adds: requests pass
// the middlewares of its members.
const ConditionMiddlewaresApplied = "MiddlewaresApplied"

// MiddlewaresApplied returns the condition that the RoutingConfig's middlewares are applied. This
// version supports none, so it is False if there are any.
func MiddlewaresApplied(c *crdv1.RoutingConfig) condition.Condition {
	var names []string
	for _, m := range c.Spec.SandboxedWorkloads {
		for _, mw := range m.Middlewares {
			names = append(names, fmt.Sprintf("%q before %s", mw.Middleware, NameIn(m)))
		}
	}
	if len(names) == 0 {
		return condition.True("NoMiddlewares", "No member has middlewares.")
	}
	return condition.False(baseline.ReasonNotSupportedYet, "Middlewares are not supported yet and are skipped: "+
		Some(names)+". Remove them from the spec to clear this condition")
}

// MiddlewaresFor returns the middlewares that are asked for before a workload, in the
// order in which they are asked for: those for it, and those for all.
func MiddlewaresFor(matches []crdv1.MiddlewareMatch, ref crdv1.ObjectRef) []crdv1.MiddlewareInstance {
	var out []crdv1.MiddlewareInstance
	for _, m := range matches {
		if m.Workload == nil || Matches(*m.Workload, ref) {
			out = append(out, *m.Instance.DeepCopy())
		}
	}
	return out
}

// Matches reports whether w names the workload. Its kind may be in the form of the routes API.
func Matches(w crdv1.WorkloadRef, ref crdv1.ObjectRef) bool {
	return w.Namespace == ref.Namespace && w.Name == ref.Name && (w.Kind == ref.Kind || w.Kind == baseline.RoutedKind(ref))
}
