package jobs

import (
	"cmp"
	"fmt"
	"time"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// Context is the routing context of a job, as it is now. The zero value is the baseline.
type Context struct {
	// RoutingKey, Sandbox and RouteGroup are for the script. Sandbox is the name that users give it.
	RoutingKey, Sandbox, RouteGroup string
	// Headers are the custom headers of the cluster with routing keys.
	Headers []string
	// Waits is why a script cannot begin yet, and Ended why none will, and one that runs is stopped.
	Waits, Ended *Why
}

// appears is how long after the job its sandbox or route group may be created.
const appears = time.Minute

// ContextOf returns the routing context of a job from its SignadotSandbox or SignadotRouteGroup; target is
// nil if there is none of that name.
func ContextOf(j *crdv1.Job, target crdv1.Object, now time.Time) Context {
	if !targets(j) {
		return Context{}
	}
	c, kind, name, reasons := Context{RouteGroup: j.Spec.RoutingContext.RouteGroupName}, "Route group", j.Spec.RoutingContext.RouteGroupName,
		[]string{ReasonRouteGroupNotFound, ReasonRouteGroupNotReady, ReasonRouteGroupDeleted, ReasonRouteGroupFailed}
	if s := j.Spec.RoutingContext.SandboxName; s != "" {
		c.Sandbox, kind, name, reasons = s, "Sandbox", s,
			[]string{ReasonSandboxNotFound, ReasonSandboxNotReady, ReasonSandboxDeleted, ReasonSandboxFailed}
	}
	if target == nil {
		switch why := (&Why{reasons[0], fmt.Sprintf("%s %s is not found.", kind, name)}); {
		case j.Status.Execution != nil: // It existed when the first execution began.
			c.Ended = &Why{reasons[2], fmt.Sprintf("%s %s was deleted.", kind, name)}
		case now.Sub(j.CreationTimestamp.Time) < appears:
			c.Waits = why
		default:
			c.Ended = why
		}
		return c
	}
	c.RoutingKey = crdv1.RoutingKeyOf(target)
	if s, is := target.(*crdv1.SignadotSandbox); is {
		c.Sandbox = cmp.Or(s.Spec.Name, s.Name)
	}
	ready := crdv1.FindCondition(*target.StatusConditions(), crdv1.ConditionReady)
	switch {
	case target.GetDeletionTimestamp() != nil:
		c.Ended = &Why{reasons[2], fmt.Sprintf("%s %s was deleted.", kind, name)}
	case ready == nil || ready.ObservedGeneration < target.GetGeneration():
		c.Waits = &Why{reasons[1], fmt.Sprintf("%s %s is not ready yet.", kind, name)}
	case ready.Status != "True" && ready.Reason == crdv1.ReasonResourceFailed:
		c.Ended = &Why{reasons[3], fmt.Sprintf("%s %s has failed: %s", kind, name, ready.Message)}
	case ready.Status != "True":
		c.Waits = &Why{reasons[1], fmt.Sprintf("%s %s is not ready: %s", kind, name, ready.Message)}
	}
	return c
}
