package fork

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/fork/power"
)

// unfit refuses variables with an output of a resource that no environment variable can contain: the
// container would not be created, and the error would name neither the output nor the variable.
func (p Plan) unfit(pod corev1.PodSpec) *Problem {
	for _, c := range power.Containers(pod) {
		for _, e := range c.Env {
			if e.ValueFrom == nil || e.ValueFrom.SecretKeyRef == nil {
				continue
			}
			ref := e.ValueFrom.SecretKeyRef
			if r, is := p.outputsIn(ref.Name); is && r.NotVariables[ref.Key] != "" {
				return notVariable("variable "+e.Name, c.Name, r, ref.Key)
			}
		}
		for _, from := range c.EnvFrom {
			if from.SecretRef == nil {
				continue
			}
			if r, is := p.outputsIn(from.SecretRef.Name); is && len(r.NotVariables) > 0 {
				return notVariable("envFrom", c.Name, r, slices.Min(slices.Collect(maps.Keys(r.NotVariables))))
			}
		}
	}
	return nil
}

// outputsIn returns the resource with its outputs in a Secret.
func (p Plan) outputsIn(secret string) (crdv1.ResourceTemplateData, bool) {
	for _, name := range slices.Sorted(maps.Keys(p.Resources)) {
		if r := p.Resources[name]; r.ObjectName == secret && (r.OutputKind == "" || r.OutputKind == defaultOutputKind) {
			return r, true
		}
	}
	return crdv1.ResourceTemplateData{}, false
}

// notVariable is the problem with an output of a resource. Its key names the step and the output.
func notVariable(what, container string, r crdv1.ResourceTemplateData, key string) *Problem {
	output := "output " + key
	if step, name, ok := strings.Cut(key, "."); ok {
		output = "output " + name + " of step " + step
	}
	return problem(ReasonOutputNotVariable, "%s of container %q has %s of resource %q, which %s, so that no variable can have it: mount it as a file from Secret %s, or encode it in the step",
		what, container, output, r.Name, r.NotVariables[key], r.ObjectName)
}
