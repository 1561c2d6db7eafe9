package fork

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/fork/misspelt"
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

// checkNames returns a Problem when a patch names a container that is not there and that
// looks like a misspelling of one that is. before and next are the pod before and after
// the patch.
//
// A container without an image cannot be a new one. One with an image can, and then its
// name counts only in a strategic patch, which finds containers by their names; a merge
// or JSON patch adds one on purpose.
func checkNames(form string, before, next corev1.PodSpec, here patchPlace) *Problem {
	names := lists.Map(power.Containers(before), func(c power.Container) string { return c.Name })
	for _, c := range power.Containers(next) {
		if slices.Contains(names, c.Name) || c.Image != "" && form != formStrategic {
			continue
		}
		meant := slices.IndexFunc(names, func(name string) bool {
			_, stays := power.ContainerNamed(next, name)
			return stays && misspelt.Is(c.Name, name)
		})
		switch {
		case meant < 0:
		case c.Image == "":
			return problem(ReasonPatchFailed, "%s names container %q, which is not there: did you mean %q?", here, c.Name, names[meant])
		default:
			return problem(ReasonPatchFailed, "%s names container %q, which is not there: did you mean %q? "+
				"To add a new container, give it a name that is less alike", here, c.Name, names[meant])
		}
	}
	return nil
}

// nameOfFork matches the variables of another fork, and in them the name of its baseline.
var nameOfFork = regexp.MustCompile(`\{\{\s*\.forks\.([^{}\s]+)\.service\.(?:host|port)\s*\}\}`)

// Siblings returns the baselines, as kind/namespace/name, of the other forks that templates
// among the patches name, in order.
func Siblings(patches []crdv1.Patch) []string {
	var names []string
	for _, p := range patches {
		if form, err := theForm(p); err == nil && p.Template {
			names = append(names, siblings(form.content)...)
		}
	}
	return lists.Unique(names)
}

func siblings(content []byte) []string {
	return lists.Map(nameOfFork.FindAllSubmatch(content, -1), func(found [][]byte) string { return string(found[1]) })
}
