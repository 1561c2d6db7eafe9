package resource

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/protos/crd/variable"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/workflows/engine"
	"switchyard.dev/workflows/iocontext"
)

// Phases of a Resource.
const (
	PhasePending  = "Pending"
	PhaseCreating = "Creating"
	PhaseReady    = "Ready"
	PhaseDeleting = "Deleting"
	PhaseFailed   = "Failed"
)

// Reasons of conditions of a Resource, in addition to those of units.
const (
	// ReasonOutputsTooLarge: the outputs of its units do not fit into a Secret.
	ReasonOutputsTooLarge = "OutputsTooLarge"
	// ReasonOutputsWritten: the Secrets with its outputs are where they are wanted.
	ReasonOutputsWritten = "OutputsWritten"
	// ReasonDeleting: it is being deleted.
	ReasonDeleting = "Deleting"
)

// Input has all inputs for one Resource. It must not be changed.
type Input struct {
	// Resource is the object.
	Resource *crdv1.Resource
	// Methods run its units, as they are after they were written; nil: there are none.
	Methods *crdv1.SignadotObjectLifecycleMethods
	// Refusal is why Methods were not written.
	Refusal *apply.Refusal
	// Outputs are the Secrets with its outputs, for the status; nil: none.
	Outputs *crdv1.ResourceOutputs
	// Written is the condition for whether the outputs are written, with the reason if they are not.
	Written condition.Condition
}

// Provisioned returns whether every preStart unit of the current spec has succeeded.
func Provisioned(in Input) condition.Condition {
	switch {
	case in.Refusal != nil:
		return condition.False(in.Refusal.Reason, in.Refusal.Message)
	case in.Methods == nil:
		return condition.Unknown(crdv1.ReasonPending, "The object that runs its steps is not created yet.")
	}
	return of(in.Methods, crdv1.ConditionPreStartDone)
}

// of returns a condition of the object that runs the units, for its current generation.
func of(m *crdv1.SignadotObjectLifecycleMethods, conditionType string) condition.Condition {
	c := crdv1.FindCondition(m.Status.Conditions, conditionType)
	if c == nil || c.ObservedGeneration < m.Generation {
		return condition.Unknown(crdv1.ReasonPending, "Its steps are being read.")
	}
	return condition.Condition{Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message}
}

// Conclude returns the Resource with its new status.
func Conclude(in Input, now metav1.Time) *crdv1.Resource {
	r := in.Resource.DeepCopy()
	s := &r.Status
	s.ObservedGeneration, s.Outputs = r.Generation, in.Outputs
	accepted, provisioned := condition.True("Accepted", "The spec is valid."), Provisioned(in)
	if m := in.Methods; m != nil {
		s.OLMName, s.IOContextName, s.Create, s.Delete = m.Name, m.Spec.IOContextName, m.Status.PreCreate, m.Status.PostStop
		accepted = of(m, crdv1.ConditionAccepted)
	}
	conditions := condition.Set{crdv1.ConditionAccepted: accepted, crdv1.ConditionProvisioned: provisioned, crdv1.ConditionOutputsWritten: in.Written}
	ready := conditions.Ready(fmt.Sprintf("Resource %q is made, and its outputs are where forks find them.", r.Spec.Name),
		crdv1.ConditionAccepted, crdv1.ConditionProvisioned, crdv1.ConditionOutputsWritten)
	failed := accepted.IsFalse() || in.Methods != nil && in.Methods.Status.Phase == crdv1.PhaseOLMFailed && provisioned.IsFalse()
	switch {
	case r.DeletionTimestamp != nil:
		s.Phase, ready = PhaseDeleting, deletion(in)
		if ready.Reason != ReasonDeleting && in.Methods.Status.Phase == crdv1.PhaseOLMFailed { // Its delete steps failed.
			s.Phase = PhaseFailed
		}
	case failed || in.Written.Reason == ReasonOutputsTooLarge:
		s.Phase, ready.Reason = PhaseFailed, crdv1.ReasonResourceFailed
	case ready.IsTrue():
		s.Phase = PhaseReady
	case in.Methods == nil:
		s.Phase = PhasePending
	default:
		s.Phase = PhaseCreating
	}
	conditions[crdv1.ConditionReady] = ready
	condition.Write(r, conditions, now)
	return r
}

// deletion returns the condition Ready of a Resource that is being deleted.
func deletion(in Input) condition.Condition {
	if in.Methods == nil {
		return condition.False(ReasonDeleting, "Its steps have removed it.")
	}
	c := of(in.Methods, crdv1.ConditionReady)
	if !c.IsFalse() || in.Methods.DeletionTimestamp == nil {
		return condition.False(ReasonDeleting, "Steps that remove it are about to run.")
	}
	if strings.Contains(c.Message, crdv1.AnnotationGiveUp) { // Its steps do not run again by themselves.
		c.Message = condition.Advise(c.Message, advice(in, c))
	}
	return condition.False(c.Reason, c.Message)
}

// advice returns the commands for a Resource with delete steps that have failed, cannot run or wait.
// Steps that lack an input fail again unless they are replaced, and steps that wait start by themselves.
func advice(in Input, ready condition.Condition) string {
	name := in.Resource.Name
	if sandbox := in.Resource.Labels[crdv1.LabelSandbox]; sandbox != "" {
		name = "--sandbox " + sandbox + " " + in.Resource.Spec.Name
	}
	skip := fmt.Sprintf("skip the delete steps with switchyard resource give-up %s (annotation %s: \"true\").", name, crdv1.AnnotationGiveUp)
	switch {
	case ready.Reason == engine.ReasonInputMissing:
		return fmt.Sprintf("Run delete steps without that input with switchyard resource retry %s --with FILE, or delete manually the objects that the earlier step created, and %s", name, skip)
	case of(in.Methods, crdv1.ConditionAccepted).IsTrue() && !strings.Contains(ready.Message, crdv1.AnnotationRetry):
		return "Or " + skip
	}
	return fmt.Sprintf("Run the delete steps again with switchyard resource retry %s, mended steps with --with FILE, or skip them with switchyard resource give-up %s (annotations %s: TIME and %s: \"true\").",
		name, name, crdv1.AnnotationRetry, crdv1.AnnotationGiveUp)
}

// Form identifies the runs of the units that gave the outputs in a Secret: other runs may give other outputs.
func Form(m *crdv1.SignadotObjectLifecycleMethods) string {
	sum := sha256.New()
	for _, u := range m.Spec.PreStart {
		ran := ""
		if st := engine.StatusOf(m.Status.PreCreate, u.Name); st != nil {
			ran = st.PodUID
		}
		for _, key := range engine.Keys([]crdv1.WorkUnit{u}) {
			sum.Write([]byte(key + " " + ran + "\n"))
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// Recorded returns the Secrets with the outputs of these runs, of those that the status records; nil:
// there are none. An earlier release recorded none: it wrote the Secrets named after the Resource, and
// the condition.
func Recorded(r *crdv1.Resource, form string) *crdv1.ResourceOutputs {
	if o := r.Status.Outputs; o != nil {
		if o.Form != form {
			return nil
		}
		return o.DeepCopy()
	}
	c := crdv1.FindCondition(r.Status.Conditions, crdv1.ConditionOutputsWritten)
	if c == nil || c.Reason != ReasonOutputsWritten || c.Status != "True" || c.ObservedGeneration < r.Generation {
		return nil
	}
	return &crdv1.ResourceOutputs{SecretName: r.Name, Form: form, Namespaces: slices.Clone(r.Spec.OutputNamespaces)}
}

// Valueless returns the condition of outputs of which the one with this key has no value: it was deleted, or
// the step had no such output when it ran.
func Valueless(r *crdv1.Resource, m *crdv1.SignadotObjectLifecycleMethods, key string) condition.Condition {
	why := fmt.Sprintf("The value of output %q was deleted.", key)
	for _, u := range m.Spec.PreStart {
		st := engine.StatusOf(m.Status.PreCreate, u.Name)
		for _, o := range u.Outputs {
			if iocontext.OutputKey(u.Name, o.Name) == key && st != nil && !slices.Contains(st.Outputs, o.Name) {
				why = fmt.Sprintf("Step %q ran before its plugin had the output %q, and does not run again.", u.Name, o.Name)
			}
		}
	}
	return condition.False(iocontext.OutputMissing, why+" kubectl delete resource "+r.Name+" deletes the resource with its data, and the sandbox creates it again.")
}

// notVariables returns the outputs that cannot be environment variables, by key, and why.
func notVariables(values map[string][]byte) map[string]string {
	var out map[string]string
	for key, value := range values {
		if why := variable.Describe(value); why != "" {
			if out == nil {
				out = map[string]string{}
			}
			out[key] = why
		}
	}
	return out
}

// Missing returns the namespaces that want the outputs and do not have them.
func Missing(r *crdv1.Resource, o *crdv1.ResourceOutputs) []string {
	return slices.DeleteFunc(slices.Clone(r.Spec.OutputNamespaces), func(namespace string) bool {
		return o != nil && slices.Contains(o.Namespaces, namespace)
	})
}
