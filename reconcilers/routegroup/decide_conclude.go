package routegroup

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/reconcilers/routingkey"
)

// Reasons of conditions of a SignadotRouteGroup, in addition to those of its parts and of a sandbox.
const (
	// ReasonSandboxesNotFound: a sandbox that is named does not exist.
	ReasonSandboxesNotFound = "SandboxesNotFound"
	// ReasonSandboxesNotReady: one that exists is not ready.
	ReasonSandboxesNotReady = "SandboxesNotReady"
)

// shownSandboxes is the maximum number of sandboxes in a message.
const shownSandboxes = 3

// Made has the objects that exist after the decision was applied.
type Made struct {
	// Config is the RoutingConfig; nil when there is none.
	Config *crdv1.RoutingConfig
	// Refusal is why it was not written.
	Refusal *apply.Refusal
}

// Conclude returns the group with its new status. now is taken as the time of
// conditions that changed.
func Conclude(in Input, d Decision, made Made, now metav1.Time) *crdv1.SignadotRouteGroup {
	g := in.Group.DeepCopy()
	ready := 0
	for _, name := range in.names() {
		if sandboxReady(in, name) {
			ready++
		}
	}
	g.Status.ObservedGeneration = g.Generation
	g.Status.TotalSandboxes, g.Status.ReadySandboxes = int32(len(in.names())), int32(ready)
	conditions := condition.Set{
		crdv1.ConditionAccepted:       d.Accepted,
		crdv1.ConditionSandboxesReady: sandboxes(in),
		crdv1.ConditionRoutingReady:   routingReady(in, d, made),
		routing.ConditionNoConflicts:  routing.Of(d.Config, d.Members, in.KeyHeaders).NoConflicts(),
	}
	if r := made.Refusal; r != nil && r.Reason == apply.ReasonRejected && d.Accepted.IsTrue() {
		conditions[crdv1.ConditionAccepted] = condition.False(r.Reason, r.Message)
	}
	conditions[crdv1.ConditionReady] = isReady(in, conditions)
	condition.Write(g, conditions, now)
	return g
}

// isReady returns the condition Ready: its reason is that of the first problem, and its message lists all
// problems.
func isReady(in Input, f condition.Set) condition.Condition {
	well := fmt.Sprintf("Requests with routing key %q are routed to %s.", in.Group.Spec.RoutingKey, count(len(in.names()), "sandbox", "sandboxes"))
	if len(in.names()) == 0 {
		well = nothing
	}
	if warning := routingkey.Warning(in.Group.Spec.RoutingKey); warning != "" {
		well += " " + warning
	}
	types := []string{crdv1.ConditionAccepted, crdv1.ConditionSandboxesReady, routing.ConditionNoConflicts, crdv1.ConditionRoutingReady}
	ready := f.Ready(well, types...)
	told := []string{ready.Message}
	for _, t := range types {
		if f[t].IsFalse() && !slices.Contains(told, f[t].Message) {
			told = append(told, f[t].Message)
		}
	}
	for i, message := range told[:len(told)-1] {
		told[i] = strings.TrimSuffix(message, ".") + "."
	}
	ready.Message = strings.Join(told, " ")
	return ready
}

// nothing is the message about the effect of a group without sandboxes.
const nothing = "The group names no sandboxes, so requests with its routing key reach the baselines."

// ConcludeDeletion returns the group with the status of one that is being deleted.
func ConcludeDeletion(g *crdv1.SignadotRouteGroup, left int, now metav1.Time) *crdv1.SignadotRouteGroup {
	g = g.DeepCopy()
	g.Status.ObservedGeneration = g.Generation
	waits := "Its RoutingConfigs are deleted."
	if left > 0 {
		waits = fmt.Sprintf("It waits for %d of its RoutingConfigs to be deleted.", left)
	}
	gone := condition.False(crdv1.ReasonDeleting, "The route group is being deleted. "+waits)
	condition.Write(g, condition.Set{crdv1.ConditionReady: gone, crdv1.ConditionRoutingReady: gone}, now)
	return g
}

// sandboxReady reports whether a sandbox exists, is not being deleted, and is ready for its current
// generation.
func sandboxReady(in Input, name string) bool {
	s, ok := in.Sandboxes[name]
	return ok && s.Object.DeletionTimestamp == nil &&
		crdv1.IsTrue(s.Object.Status.Conditions, crdv1.ConditionReady, s.Object.Generation)
}

// sandboxes returns whether every sandbox of the group exists and is ready.
func sandboxes(in Input) condition.Condition {
	var missing, unready []string
	for _, name := range in.names() {
		if _, ok := in.Sandboxes[name]; !ok {
			missing = append(missing, name)
		} else if !sandboxReady(in, name) {
			unready = append(unready, name+" ("+why(in.Sandboxes[name].Object)+")")
		}
	}
	total := len(in.names())
	switch {
	case len(missing) > 0:
		return condition.False(ReasonSandboxesNotFound, fmt.Sprintf(
			"There is no SignadotSandbox %s: create it, or remove it from spec.sandboxNames. The others are routed.", condition.List(missing, shownSandboxes, ", ")))
	case len(unready) > 0:
		return condition.False(ReasonSandboxesNotReady, fmt.Sprintf("%d of %s not ready: %s",
			len(unready), count(total, "sandbox is", "sandboxes are"), condition.List(unready, shownSandboxes, "; ")))
	case total == 0:
		return condition.True("NoSandboxes", nothing)
	}
	return condition.True("SandboxesReady", fmt.Sprintf("Sandboxes ready: %d of %d.", total, total))
}

// why returns why a sandbox is not ready.
func why(s *crdv1.SignadotSandbox) string {
	c := crdv1.FindCondition(s.Status.Conditions, crdv1.ConditionReady)
	switch {
	case s.DeletionTimestamp != nil:
		return "it is being deleted"
	case c == nil || c.ObservedGeneration < s.Generation:
		return "it is not reconciled yet"
	}
	return c.Reason + ": " + c.Message
}

// routingReady returns whether the data plane knows the key, and requests for every member's
// baseline meet a sidecar that acts on it.
func routingReady(in Input, d Decision, made Made) condition.Condition {
	switch {
	case made.Refusal != nil:
		return condition.False(made.Refusal.Reason, made.Refusal.Message)
	case d.Config == nil:
		return condition.False(d.Accepted.Reason, d.Accepted.Message)
	}
	return routing.Of(made.Config, d.Members, in.KeyHeaders).Ready()
}

// count returns how many there are.
func count(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}
