package sandbox

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/condition"
)

// Provide returns the desired Resources. It is called before Decide, because forks wait for them. It
// returns none without the routing key; existing Resources are kept even then, since deleting them would
// lose their data.
func Provide(in Input) []*crdv1.Resource {
	if !in.acceptKey().IsTrue() {
		return nil
	}
	var out []*crdv1.Resource
	namespaces := outputNamespaces(in)
	for i, r := range in.Sandbox.Spec.ManagedResources {
		if acceptResource(in, i).IsTrue() {
			out = append(out, resourceFor(in, r, namespaces))
		}
	}
	return out
}

// outputNamespaces returns the namespaces of the forks and external workloads, which are allowed to use
// the outputs of resources.
func outputNamespaces(in Input) []string {
	var out []string
	for _, e := range entries(in) {
		// A member without a baseline is in the operator's namespace.
		_, stands := e.object.BaselineRef()
		if e.accepted.IsTrue() && (e.object.MemberKind() == crdv1.KindForkedWorkload || e.object.MemberKind() == crdv1.KindExternalWorkload && stands) {
			out = append(out, e.object.GetNamespace())
		}
	}
	return lists.Unique(out)
}

// acceptResources returns the problem with the first resource that cannot be created.
func acceptResources(in Input) condition.Condition {
	for i := range in.Sandbox.Spec.ManagedResources {
		if f := acceptResource(in, i); !f.IsTrue() {
			return f
		}
	}
	return condition.True("Accepted", "Every resource has a name of its own.")
}

// acceptResource returns whether one resource can be created.
func acceptResource(in Input, index int) condition.Condition {
	all := in.Sandbox.Spec.ManagedResources
	name := all[index].Name
	if name == "" {
		return condition.False(baseline.ReasonInvalidSpec, fmt.Sprintf(
			"managedResources[%d] has no name: give it one that no other resource of the sandbox has", index))
	}
	if first := slices.IndexFunc(all, func(r crdv1.SandboxResource) bool { return r.Name == name }); first < index {
		return condition.False(baseline.ReasonInvalidSpec, fmt.Sprintf(
			"managedResources[%d].name is %q, as that of managedResources[%d]: give each resource of a sandbox a different name", index, name, first))
	}
	return condition.True("Accepted", "It has a name of its own.")
}

// provided is the state of the resources.
type provided struct {
	// condition is that for ResourcesReady: forks wait until it is yes.
	condition condition.Condition
	// unused are Resources that the spec does not list and no fork uses.
	unused []*crdv1.Resource
}

// resources returns the state of the resources that forks may use, and the surplus ones.
func resources(in Input) provided {
	var p provided
	wanted := in.Sandbox.Spec.ManagedResources
	p.condition = condition.True("NoResources", "The sandbox has no resources.")
	if len(wanted) > 0 {
		p.condition = condition.True("ResourcesReady", fmt.Sprintf("Resources ready: %d of %d.", len(wanted), len(wanted)))
	}
	var ask []condition.Condition
	for i, r := range wanted {
		f := acceptResource(in, i)
		if f.IsTrue() {
			f = resourceReady(in, r.Name)
		}
		ask = append(ask, f)
	}
	for _, weight := range []func(condition.Condition) bool{isFailure, condition.Condition.IsFalse, isOpen} {
		if i := slices.IndexFunc(ask, weight); i >= 0 {
			p.condition = ask[i]
			break
		}
	}
	var still []string
	for _, have := range in.Resources {
		if slices.ContainsFunc(wanted, func(r crdv1.SandboxResource) bool { return ResourceName(in.Sandbox, r.Name) == have.Name }) {
			continue
		}
		if user := user(in, have); user != "" {
			still = append(still, fmt.Sprintf("Resource %q, which the sandbox no longer names, is deleted once %s runs without it.", have.Spec.Name, user))
		} else {
			p.unused = append(p.unused, have)
		}
	}
	p.condition.Message = strings.Join(append([]string{p.condition.Message}, still...), " ")
	return p
}

// shownResources is the maximum number of resources in a message, and shownBytes the maximum length of a
// name in it.
const (
	shownResources = 5
	shownBytes     = 63
)

// awaited names the resources that forks wait for, ready or not: named one by one as
// they become ready, each would cost a write for every fork.
func awaited(in Input) string {
	var names []string
	for i, r := range in.Sandbox.Spec.ManagedResources {
		name := cmp.Or(r.Name, fmt.Sprintf("managedResources[%d]", i))
		if len(name) > shownBytes {
			name = strings.ToValidUTF8(name[:shownBytes], "") + "..."
		}
		names = append(names, name)
	}
	if len(names) == 1 {
		return "Resource " + names[0]
	}
	return "Resources " + condition.List(names, shownResources, ", ")
}

// isFailure reports whether a resource failed for good.
func isFailure(f condition.Condition) bool { return f.Reason == ReasonResourceFailed }

// isOpen reports whether it is not known how it is.
func isOpen(f condition.Condition) bool { return !f.IsTrue() && !f.IsFalse() }

// resourceReady returns whether the current spec of one resource is ready.
func resourceReady(in Input, name string) condition.Condition {
	object := ResourceName(in.Sandbox, name)
	have := in.resource(object)
	shown := fmt.Sprintf("Resource %q (Resource %s)", name, object)
	refusal, unwritten := in.Unwritten[object]
	switch {
	case refusal != nil:
		return condition.False(refusal.Reason, refusal.Message)
	case unwritten:
		return condition.Unknown(crdv1.ReasonPending, shown+" is not written yet; retrying.")
	case have == nil:
		return condition.False(ReasonResourcesNotReady, shown+" is created once the sandbox holds its routing key.")
	case have.DeletionTimestamp != nil:
		return condition.False(ReasonResourcesNotReady, shown+" is being deleted by another client; it is re-created once its deletion completes.")
	}
	if why, failed := failure(have); failed {
		message := fmt.Sprintf("%s failed, and its forks do not start: %s", shown, why)
		if a := crdv1.FindCondition(have.Status.Conditions, crdv1.ConditionAccepted); a != nil && a.Status == string(metav1.ConditionFalse) {
			return condition.False(ReasonResourceFailed, message) // It names the remedy, and a retry is none.
		}
		return condition.False(ReasonResourceFailed, condition.Advise(message,
			fmt.Sprintf("Mend the cause and run switchyard resource retry --sandbox %s %s (or annotate the Resource with %s: TIME), or change the resource in the sandbox.",
				in.Sandbox.Name, name, crdv1.AnnotationRetry)))
	}
	c := crdv1.FindCondition(have.Status.Conditions, crdv1.ConditionReady)
	switch {
	case c == nil && have.Status.Phase == "":
		return condition.Unknown(crdv1.ReasonPending, shown+" was written and is not reconciled yet.")
	case c != nil && c.Reason == baseline.ReasonNotSupportedYet:
		return condition.Unknown(c.Reason, shown+" is not provided: this installation does not run the steps of resource plugins. "+
			"Upgrade it with the operator's chart, which has it run them, or take the resource out of managedResources.")
	case c == nil || c.ObservedGeneration < have.Generation:
		return condition.Unknown(ReasonResourcesNotReady, shown+" has changed and is not reported ready yet.")
	case c.Status != string(metav1.ConditionTrue):
		return condition.False(ReasonResourcesNotReady, fmt.Sprintf("%s is not ready (%s): %s", shown, c.Reason, c.Message))
	}
	return condition.True("ResourcesReady", shown+" is ready.")
}

// phaseFailed is a phase of a Resource that failed, beside that of the
// SignadotObjectLifecycleMethods that runs it.
const phaseFailed = "Failed"

// failure returns why a Resource failed for good in its present form, if it did.
func failure(r *crdv1.Resource) (why string, failed bool) {
	c := crdv1.FindCondition(r.Status.Conditions, crdv1.ConditionReady)
	if c != nil && c.Status == string(metav1.ConditionFalse) && c.Reason == ReasonResourceFailed && c.ObservedGeneration >= r.Generation {
		return c.Message, true
	}
	if p := r.Status.Phase; (p == phaseFailed || p == crdv1.PhaseOLMFailed) && r.Status.ObservedGeneration >= r.Generation {
		return "its phase is " + p, true
	}
	return "", false
}

// user returns a fork that may still use a Resource; "" if there is none. A fork that no longer lists the
// Resource uses it until its new pods have replaced the old ones.
func user(in Input, r *crdv1.Resource) string {
	for _, m := range in.Members {
		w, ok := m.(*crdv1.ForkedWorkload)
		if !ok {
			continue
		}
		if _, told := w.Spec.ResourceTemplateData[r.Spec.Name]; told || !settled(w) {
			return "ForkedWorkload " + w.Namespace + "/" + w.Name
		}
	}
	return ""
}

// settled reports whether nothing but the present form of a fork runs.
func settled(w *crdv1.ForkedWorkload) bool {
	available := crdv1.FindCondition(w.Status.Conditions, crdv1.ConditionForkAvailable)
	switch {
	case w.DeletionTimestamp != nil, available == nil, available.ObservedGeneration < w.Generation:
		return false
	case held(w) && w.Status.Fork != nil: // It runs in its former form.
		return false
	case w.Status.Fork == nil, available.Reason == crdv1.ReasonScaledToZero:
		return true
	}
	return crdv1.IsTrue(w.Status.Conditions, crdv1.ConditionAccepted, w.Generation) &&
		crdv1.IsTrue(w.Status.Conditions, crdv1.ConditionForkAvailable, w.Generation)
}
