package forkedworkload

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/fork"
	"switchyard.dev/reconcilers/fork/trouble"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/sidecars/inject"
)

// Made lists the objects that exist after the decision was applied.
type Made struct {
	// The Services of the fork, by the name of the baseline's.
	member.Made
	// Fork is the workload of the fork, a Deployment or a Rollout; nil if the ForkedWorkload owns none.
	Fork fork.Object
	// ForkRefusal is why that was not written; nil when it was.
	ForkRefusal *apply.Refusal
	// Silent is a Service of the fork that does not answer yet although the
	// fork's pods are ready; empty when there is none.
	Silent string
}

// together returns the result with one refusal in place of all about names that are taken.
func (m Made) together() Made {
	one := apply.Together(nil, append(slices.Collect(maps.Values(m.ServiceRefusals)), m.ForkRefusal)...)
	if one == nil {
		return m
	}
	m.ServiceRefusals = maps.Clone(m.ServiceRefusals)
	for from, r := range m.ServiceRefusals {
		if r.Reason == one.Reason {
			m.ServiceRefusals[from] = one
		}
	}
	if r := m.ForkRefusal; r != nil && r.Reason == one.Reason {
		m.ForkRefusal = one
	}
	return m
}

// Conclude returns the ForkedWorkload with its new status. now is taken as the
// time of conditions that changed.
func Conclude(in Input, d Decision, made Made, now metav1.Time) *crdv1.ForkedWorkload {
	made = made.together()
	w := in.Workload.DeepCopy()
	w.Status.ObservedGeneration = w.Generation
	if w.Status.Baseline = in.Seen.Status(w.Status.Baseline); !in.reached() {
		w.Status.Baseline = nil
	}
	w.Status.Fork = forkStatus(made.Fork)
	services := made.Mapped(d.Services)
	sidecar, present := in.Sidecars(services)
	if w.Status.RoutingConfig = nil; in.reached() {
		w.Status.RoutingConfig = &crdv1.WorkloadRoutingInfo{DevMeshSidecarPresent: present, Services: services, FormerServices: in.Former(in.Workload)}
	}

	conditions := maps.Clone(d.Conditions)
	if r := made.ForkRefusal; r != nil && r.Reason == apply.ReasonRejected {
		conditions[crdv1.ConditionAccepted] = condition.False(r.Reason, r.Message+in.stillRunning())
	}
	conditions[crdv1.ConditionForkAvailable] = forkCondition(in, d, made)
	conditions[crdv1.ConditionServicesReady] = servicesCondition(in, d, made)
	conditions[baseline.ConditionSidecarsReady] = sidecar
	in.WriteReached(w, conditions)
	conditions[crdv1.ConditionReady] = readyCondition(in, d, conditions)
	if _, found := conditions[crdv1.ConditionPoliciesApply]; !found {
		condition.Drop(w, crdv1.ConditionPoliciesApply)
	}
	if c := in.outsideMesh(); c != nil {
		conditions[crdv1.ConditionInMesh] = *c
	} else {
		condition.Drop(w, crdv1.ConditionInMesh)
	}
	condition.Write(w, conditions, now)
	return w
}

// ReasonNoMeshProxy is the reason of crdv1.ConditionInMesh.
const ReasonNoMeshProxy = "NoMeshProxy"

// outsideMesh returns the condition that pods of the fork have no proxy of a mesh; nil if all running
// pods have one, or no mesh routes requests.
func (in Input) outsideMesh() *condition.Condition {
	if !in.Mesh {
		return nil
	}
	for _, pod := range lists.Pointers(in.ForkPods) {
		if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil || inject.InMesh(pod) {
			continue
		}
		c := condition.False(ReasonNoMeshProxy, fmt.Sprintf("Pod %s of the fork has no proxy of a mesh, so no mesh routes the requests that it sends. If it calls other forks, set the label of injection by a patch.", pod.Name))
		return &c
	}
	return nil
}

// readyCondition returns the condition Ready. A fork that waits is not ready, even if it runs; other
// problems take precedence over the wait.
func readyCondition(in Input, d Decision, all condition.Set) condition.Condition {
	types := []string{crdv1.ConditionBaselineFound, crdv1.ConditionAccepted, crdv1.ConditionServicesReady, crdv1.ConditionForkAvailable, baseline.ConditionBaselineReached}
	message := "The fork of " + in.baselineName() + " is available."
	if accepted := all[crdv1.ConditionAccepted]; accepted.Reason == ReasonPatchAddsContainer || accepted.Reason == ReasonPatchedContainerGone {
		message += " " + accepted.Message
	}
	ready := all.Ready(message, types...)
	if d.Held != "" && !all[crdv1.ConditionAccepted].IsFalse() && !all[crdv1.ConditionServicesReady].IsFalse() {
		return condition.False(crdv1.ReasonWaitsFor, d.Held)
	}
	return ready
}

// forkStatus refers to the workload of the fork.
func forkStatus(o fork.Object) *crdv1.ForkStatus {
	if o == nil {
		return nil
	}
	ref := &crdv1.ObjectRef{Namespace: o.GetNamespace(), Name: o.GetName()}
	ref.APIVersion, ref.Kind = kindOf(o).ToAPIVersionAndKind()
	return &crdv1.ForkStatus{ObjectRef: ref}
}

// forkCondition returns whether all pods of the newest form of the fork are ready, and
// if not, why.
func forkCondition(in Input, d Decision, made Made) condition.Condition {
	if r := made.ForkRefusal; r != nil {
		return condition.False(r.Reason, r.Message)
	}
	if made.Fork == nil && d.Held != "" {
		return condition.False(crdv1.ReasonWaitsFor, d.Held)
	}
	if made.Fork == nil {
		return condition.False(ReasonForkMissing, "The workload of the fork has not been made.")
	}
	p := progressOf(made.Fork)
	why, troubled := trouble.Of(in.ForkPods)
	switch {
	case p.wanted == 0:
		return condition.False(crdv1.ReasonScaledToZero, scaledToZero(d, made, p))
	case !p.seen:
		// Its pods are outdated. The message is the same as after its controller has observed the change,
		// so that the status is not written twice.
		return progressing(in, made, p, 0)
	case made.Silent != "":
		return condition.False(crdv1.ReasonServiceSilent, fmt.Sprintf("%s: pods are ready; Service %s does not answer yet.", p.name, made.Silent))
	case p.complete():
		return available(made, p)
	case p.paused && p.updated < p.wanted:
		return condition.False(ReasonForkPaused, isPaused(d, made, p))
	case p.refused != "":
		return condition.False(ReasonPodsRefused, p.name+": "+p.refused)
	case troubled && p.updated > 0: // Until then all pods are of a former form.
		return condition.False(why.Reason, p.name+": "+why.Message)
	case p.failed != "":
		return condition.False(ReasonForkFailed, p.name+": "+p.failed)
	default:
		return progressing(in, made, p, p.fresh())
	}
}

// available is the condition about a fork with all pods ready. That it is paused is a
// caveat.
func available(made Made, p progress) condition.Condition {
	out := condition.True("ForkAvailable", fmt.Sprintf("%s: pods ready: %d of %d.", p.name, p.available, p.wanted))
	if p.paused {
		out.Reason = ReasonForkPaused
		out.Message = strings.TrimSuffix(out.Message, ".") + "; it is paused, so later changes reach its pods only after " + resume(made.Fork)
	}
	return out
}

// progressing returns how many pods of the newest form of the fork are ready.
func progressing(in Input, made Made, p progress, ready int32) condition.Condition {
	argo := ""
	if !p.seen {
		argo = in.withoutArgo(made.Fork)
	}
	message := fmt.Sprintf("%s: new pods ready: %d of %d. If that lasts%s: kubectl describe pods -n %s -l %s=%s",
		p.name, ready, p.wanted, argo, made.Fork.GetNamespace(), crdv1.LabelForkedWorkload, in.identity().Selector()[crdv1.LabelForkedWorkload])
	return condition.False(ReasonForkProgressing, message)
}

// scaledToZero returns a message about a fork without pods: the cause, and how to scale it up.
func scaledToZero(d Decision, made Made, p progress) string {
	if d.Replicas != nil && *d.Replicas == 0 {
		return p.name + " has 0 replicas, set by a patch: set at least 1"
	}
	return fmt.Sprintf("%s is scaled to 0 replicas, so requests with the key fail. To scale it up: kubectl scale --replicas=1 %s",
		p.name, argument(made.Fork))
}

// isPaused returns a message about a paused fork with outdated pods, with the command to resume it.
func isPaused(d Decision, made Made, p progress) string {
	if want, ok := d.Fork.(*appsv1.Deployment); ok && want.Spec.Paused {
		return p.name + " is paused by a patch: remove spec.paused from it"
	}
	return fmt.Sprintf("%s is paused, so its pods do not become what the sandbox asks for. To resume it: %s", p.name, resume(made.Fork))
}

// resume is the command that resumes a paused fork.
func resume(o fork.Object) string {
	if kindOf(o).Kind == baseline.KindRollout {
		return fmt.Sprintf(`kubectl patch --type=merge -p '{"spec":{"paused":false}}' %s`, argument(o))
	}
	return "kubectl rollout resume " + argument(o)
}

// argument returns how a fork is named to kubectl.
func argument(o fork.Object) string { return apply.Argument(kindOf(o), o) }

// withoutArgo is the advice for a Rollout without a status.
func (in Input) withoutArgo(o fork.Object) string {
	if kindOf(o).Kind != baseline.KindRollout {
		return ""
	}
	return ", check that the controller of Argo Rollouts runs, and the pods"
}

// serves reports whether some pod of the fork can serve a request now.
func serves(o fork.Object) bool { return o != nil && progressOf(o).available > 0 }

// servicesCondition returns whether there is a Service for each of the baseline's.
func servicesCondition(in Input, d Decision, made Made) condition.Condition {
	if !d.Conditions[crdv1.ConditionBaselineFound].IsTrue() {
		return condition.Unknown(baseline.ReasonBaselineNotFound, "There is no baseline to take Services from.")
	}
	var missing, unmapped []string
	count := 0
	for _, m := range d.Services {
		if len(m.Missing) > 0 {
			unmapped = append(unmapped, fmt.Sprintf("%s %s", m.From, ports(m.Missing)))
		}
		if r := made.ServiceRefusals[m.From]; r != nil {
			return condition.False(r.Reason, r.Message)
		}
		switch {
		case m.Service == nil:
		case member.Reachable(made.Services[m.From]):
			count++
		default:
			missing = append(missing, m.From)
		}
	}
	if len(missing) > 0 {
		return condition.False(ReasonServicesMissing, "There is no Service yet for "+strings.Join(missing, ", ")+".")
	}
	if len(d.Services) == 0 && len(in.Reach.Had) > 0 {
		return condition.True(crdv1.ConditionServicesReady, fmt.Sprintf("No Service selects %s any more.", in.baselineName()))
	}
	if len(d.Services) == 0 {
		return condition.True(baseline.ReasonNoService, fmt.Sprintf("No Service selects %s (one with the annotation %s does not count), "+
			"so no request is routed to the fork: create a Service, unless the workload consumes a queue.",
			in.baselineName(), crdv1.AnnotationIgnore))
	}
	if len(unmapped) > 0 {
		return condition.True(ReasonPortsWithoutTarget, "No container declares the target that these Service ports name, so requests to them fail: "+strings.Join(unmapped, "; ")+".")
	}
	return condition.True("ServicesReady", fmt.Sprintf("Services of the baseline that are forked: %d.", count))
}

// ports lists ports for a message.
func ports(numbers []int32) string {
	return strings.Join(lists.Map(slices.Sorted(slices.Values(numbers)), func(n int32) string { return fmt.Sprint(n) }), ", ")
}
