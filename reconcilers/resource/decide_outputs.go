package resource

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/protos/crd/variable"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/workflows/engine"
	"switchyard.dev/workflows/iocontext"
)

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
