package sandbox

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/reconcilers/sandbox/middleware"
)

// Made lists the parts that exist after the decision was applied.
type Made struct {
	// Members are the written members, with the indexes of the decision; nil where the sandbox owns none.
	Members []crdv1.Member
	// Refusals are why members were not written, in the same places.
	Refusals []*apply.Refusal
	// Config is the RoutingConfig; nil when there is none.
	Config *crdv1.RoutingConfig
	// ConfigRefusal is why the RoutingConfig was not written.
	ConfigRefusal *apply.Refusal
	// Attached are the TrafficCaptures of middlewares.
	Attached middleware.Attached
	// Taken lists all objects that occupy a name that the sandbox needs, if there is any.
	Taken *apply.Refusal
}

// Conclude returns the sandbox with its new status. now is taken as the time of
// conditions that changed.
func Conclude(in Input, d Decision, made Made, now metav1.Time) *crdv1.SignadotSandbox {
	s := in.Sandbox.DeepCopy()
	list(s, in, d, made)
	conditions := condition.Set{
		crdv1.ConditionAccepted:       d.Conditions[crdv1.ConditionAccepted],
		crdv1.ConditionResourcesReady: d.Conditions[crdv1.ConditionResourcesReady],
		crdv1.ConditionWorkloadsReady: workloads(in, d, made),
		crdv1.ConditionRoutingReady:   routingReady(in, d, made),
	}
	if conditions[crdv1.ConditionAccepted].IsTrue() {
		conditions[crdv1.ConditionAccepted] = acceptedByParts(d, made)
	}
	well := "All desired workloads are available."
	if len(d.Members) == 0 {
		well = nothing
	}
	caveats := caveats(in, d, made)
	conditions[crdv1.ConditionReady] = conditions.Ready(withCaveats(well, caveats),
		crdv1.ConditionAccepted, crdv1.ConditionResourcesReady, crdv1.ConditionWorkloadsReady, crdv1.ConditionRoutingReady)
	if c, found := policiesApply(made); found {
		conditions[crdv1.ConditionPoliciesApply] = c
	} else {
		condition.Drop(s, crdv1.ConditionPoliciesApply)
	}
	writeCaveats(s, conditions, caveats)
	made.Attached.WriteGroups(s, conditions)
	condition.Write(s, conditions, now)
	return s
}

// policiesApply returns the condition of the first fork to which a policy of its baseline does not
// apply, if there is one. Ready does not depend on it.
func policiesApply(made Made) (condition.Condition, bool) {
	for _, m := range made.Members {
		w, is := m.(*crdv1.ForkedWorkload)
		if !is || w == nil {
			continue
		}
		if c := crdv1.FindCondition(w.Status.Conditions, crdv1.ConditionPoliciesApply); c != nil {
			return condition.Condition{Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message}, true
		}
	}
	return condition.Condition{}, false
}

// ConcludeDeletion returns the sandbox with the status of one that is being deleted. None
// of its remaining parts, which in has, counts as ready; conditions about its spec are
// kept.
func ConcludeDeletion(in Input, message string, now metav1.Time) *crdv1.SignadotSandbox {
	s := in.Sandbox.DeepCopy()
	st := &s.Status
	st.ObservedGeneration, st.CustomizedDeployments, st.ReadyDeployments = s.Generation, 0, 0
	for _, m := range in.Members {
		if w, ok := m.(*crdv1.ForkedWorkload); ok {
			count(st, w)
		}
	}
	gone := condition.False(crdv1.ReasonDeleting, message)
	condition.Write(s, condition.Set{
		crdv1.ConditionReady: gone, crdv1.ConditionWorkloadsReady: gone, crdv1.ConditionResourcesReady: gone, crdv1.ConditionRoutingReady: gone,
	}, now)
	return s
}

// acceptedByParts returns the problem with the spec that a member reports.
func acceptedByParts(d Decision, made Made) condition.Condition {
	for i, m := range made.Members {
		if r := made.Refusals[i]; r != nil && r.Reason == apply.ReasonRejected {
			return condition.False(r.Reason, d.Members[i].Field+": "+r.Message)
		}
		if m == nil {
			continue
		}
		c := crdv1.FindCondition(*m.StatusConditions(), crdv1.ConditionAccepted)
		if c != nil && c.Status == string(metav1.ConditionFalse) && c.ObservedGeneration >= m.GetGeneration() {
			return condition.False(c.Reason, d.Members[i].here(c.Message))
		}
	}
	return d.Conditions[crdv1.ConditionAccepted]
}

// workloads returns the condition WorkloadsReady: whether every listed workload has a member that is
// ready. Known problems take precedence over pending members.
func workloads(in Input, d Decision, made Made) condition.Condition {
	if d.Config == nil {
		a := d.Conditions[crdv1.ConditionAccepted]
		return condition.False(a.Reason, a.Message)
	}
	out := condition.True("WorkloadsReady", fmt.Sprintf("Workloads ready: %d of %d.", len(d.Members), len(d.Members)))
	if len(d.Members) == 0 {
		out = condition.True("NoWorkloads", "The sandbox names no workloads.")
	}
	if made.Taken != nil {
		return condition.False(made.Taken.Reason, made.Taken.Message)
	}
	for i := range d.Members {
		f := memberReady(in, d.Members[i], made.Members[i], made.Refusals[i])
		if f.IsFalse() {
			return f
		}
		if !f.IsTrue() && out.IsTrue() {
			out = f
		}
	}
	if d.LeftOut.IsFalse() {
		return condition.False(d.LeftOut.Reason, "Left out: "+d.LeftOut.Message)
	}
	return out
}

// memberReady returns whether one member is ready. Problems of a waiting member take precedence over the
// wait.
func memberReady(in Input, want Wanted, have crdv1.Member, refusal *apply.Refusal) condition.Condition {
	kind, place := want.Object.MemberKind(), want.Object.GetNamespace()+"/"+want.Object.GetName()
	switch {
	case refusal != nil:
		return refused(in, want, refusal)
	case have == nil:
		return condition.Unknown(crdv1.ReasonPending, fmt.Sprintf("%s %s is not written yet; retrying.", kind, place))
	}
	f := reported(have)
	f.Message = want.here(f.Message)
	if want.WaitsFor == "" || f.IsFalse() && f.Reason != crdv1.ReasonWaitsFor {
		return f
	}
	if want.Keep {
		return condition.Unknown(ReasonResourcesNotReady, fmt.Sprintf(
			"%s: its fork keeps running, and is updated once these are ready: %s.", want.Field, want.WaitsFor))
	}
	return condition.Unknown(ReasonResourcesNotReady, fmt.Sprintf(
		"%s: its fork starts once these are ready: %s. Until then requests with the routing key fail with 503 and do not reach the baseline.", want.Field, want.WaitsFor))
}

// reported returns the condition Ready of a member. It is Unknown for a member that was released and has
// not reported since.
func reported(have crdv1.Member) condition.Condition {
	c := crdv1.FindCondition(*have.StatusConditions(), crdv1.ConditionReady)
	if c == nil || c.ObservedGeneration < have.GetGeneration() || c.Reason == crdv1.ReasonWaitsFor && !held(have) {
		return condition.Unknown(crdv1.ReasonPending, fmt.Sprintf("%s %s/%s was written and is not reconciled yet.",
			have.MemberKind(), have.GetNamespace(), have.GetName()))
	}
	return condition.Condition{Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message}
}

// rightMissing is part of the API server's answer where RBAC denies: quotas and policies forbid
// too.
const rightMissing = " cannot patch resource "

// refused returns why a member was not written.
func refused(in Input, want Wanted, r *apply.Refusal) condition.Condition {
	ref, ok := want.Object.BaselineRef()
	namespace := want.Object.GetNamespace()
	switch {
	case r.Reason == apply.ReasonNamespaceNotFound && ok:
		return condition.False(baseline.ReasonBaselineNotFound, fmt.Sprintf(
			"%s %s/%s does not exist, nor does its namespace: create both, after which the sandbox continues by itself, or name another one in the sandbox",
			ref.Kind, ref.Namespace, ref.Name))
	case r.Reason == apply.ReasonForbidden && strings.Contains(r.Message, rightMissing) && slices.Contains(in.Namespaces, namespace):
		return condition.False(r.Reason, fmt.Sprintf(
			"The operator has no rights in namespace %q, which allowedNamespaces lists: if the namespace was deleted, the operator's RoleBinding was deleted with it. Create the namespace, then run helm upgrade with the values of the installation, which creates the RoleBinding again; the sandbox continues by itself. The answer of the API server: %s",
			namespace, r.Message))
	}
	return condition.False(r.Reason, want.Field+": "+r.Message)
}

// routingReady returns whether the data plane knows the key, and requests for every
// member's baseline meet a sidecar that acts on it.
func routingReady(in Input, d Decision, made Made) condition.Condition {
	switch {
	case made.ConfigRefusal != nil && made.ConfigRefusal.Reason == apply.ReasonNameTaken && made.Taken != nil:
		return condition.False(made.Taken.Reason, made.Taken.Message)
	case made.ConfigRefusal != nil:
		return condition.False(made.ConfigRefusal.Reason, made.ConfigRefusal.Message)
	case d.Config == nil:
		a := d.Conditions[crdv1.ConditionAccepted]
		return condition.False(a.Reason, a.Message)
	}
	ready := routing.Of(made.Config, made.Members, in.KeyHeaders).Ready()
	if refused := slices.IndexFunc(made.Refusals, func(r *apply.Refusal) bool { return r != nil }); refused >= 0 && ready.Reason == crdv1.ReasonPending {
		return condition.False(made.Refusals[refused].Reason, fmt.Sprintf("No proxy gets rules for %s, which was refused: see %s.", d.Members[refused].Field, crdv1.ConditionWorkloadsReady))
	}
	if !ready.IsTrue() {
		return ready
	}
	if d.LeftOut.IsFalse() {
		return condition.False(d.LeftOut.Reason, "Not routed, so that requests reach the baseline: "+d.LeftOut.Message)
	}
	for _, f := range []condition.Condition{routing.MiddlewaresApplied(made.Config), made.Attached.Ready()} {
		if !f.IsTrue() {
			return f
		}
	}
	if len(made.Members) > 0 {
		ready.Message = routed(made)
	}
	return ready
}

// routed states that the key is routed, with the first caveat of its members and the number of others.
func routed(made Made) string {
	message := "The rules of the routing key are on the routing log, every baseline has the sidecars it needs, and every proxy knows them."
	if c := crdv1.FindCondition(made.Config.Status.Conditions, routing.ConditionProxiesCurrent); c != nil && c.Reason == routing.ReasonNotAwaited {
		message = "The rules of the routing key are on the routing log, and every baseline has the sidecars it needs."
	}
	var caveats []string
	for _, m := range made.Members {
		if m == nil {
			continue
		}
		if but := baseline.Caveat(m); but != "" {
			caveats = append(caveats, but)
		}
	}
	return withCaveats(message, caveats)
}
