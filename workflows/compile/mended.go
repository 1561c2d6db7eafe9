package compile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/protos/crd/variable"
	"switchyard.dev/workflows/engine"
	"switchyard.dev/workflows/spec"
	"switchyard.dev/workflows/specfile"
)

// DeleteSteps compiles the delete steps of a repaired plugin for an existing Resource, to replace
// its own. The plugin has passed Plugin. Parameters and names are those of the Resource's steps;
// the steps that created it are unchanged.
func DeleteSteps(p spec.Plugin, r *crdv1.Resource) ([]crdv1.WorkUnit, specfile.Problems) {
	var problems specfile.Problems
	name, err := spec.ParsePluginName(p.Name)
	if of, unnamed := spec.ParsePluginName(r.Spec.PluginName); err == nil && unnamed == nil && of.Bare != name.Bare {
		problems.Add("name", "is %q, and resource %s is of plugin %s", p.Name, r.Spec.Name, r.Spec.PluginName)
	}
	if len(p.Spec.Delete) == 0 {
		problems.Add("spec", "has no delete steps, so there is nothing to run; give-up deletes a resource without its delete steps")
	}
	who := identityOf(r)
	given := engine.Keys(r.Spec.OLM.PreStart)
	for _, s := range p.Spec.Delete {
		given = append(given, outputKeys([]spec.Step{s})...)
	}
	for i, s := range p.Spec.Delete {
		if slices.ContainsFunc(r.Spec.OLM.PreStart, func(u crdv1.WorkUnit) bool { return u.Name == s.Name }) {
			problems.Add(fmt.Sprintf("spec.delete[%d].name", i), "is %q, which a step that created the resource has", s.Name)
		}
		for j, in := range s.Inputs {
			at := fmt.Sprintf("spec.delete[%d].inputs[%d]", i, j)
			if from := in.ValueFromStep; from != nil && !slices.Contains(given, outputKey(from.Name, from.Output)) {
				problems.Add(at, "reads %s, which no step of the resource gives; it has %s", outputKey(from.Name, from.Output), listedOr(given, "no outputs"))
			}
			if _, has := who.params[in.Name]; in.ValueFromSandbox && !has {
				problems.Add(at, "reads the parameter %s, which no step of the resource has read, so its value is not known; known are %s",
					in.Name, listedOr(slices.Sorted(maps.Keys(who.params)), "none"))
			}
		}
	}
	return lifecycle(p, who).PostStop, problems
}

// listedOr returns names with commas between them, or a word for none.
func listedOr(names []string, none string) string {
	if len(names) == 0 {
		return none
	}
	return strings.Join(names, ", ")
}

// identityOf returns the identity with which the steps of a Resource were compiled.
func identityOf(r *crdv1.Resource) identity {
	who := identity{
		sandbox: r.Annotations[crdv1.AnnotationSandboxName], key: r.Annotations[crdv1.AnnotationRoutingKey],
		resource: r.Spec.Name, params: map[string]string{},
	}
	for _, u := range slices.Concat(r.Spec.OLM.PreStart, r.Spec.OLM.PostStop) {
		for _, in := range u.Inputs {
			if in.IOContext == nil {
				who.params[in.Name] = in.Value
			}
		}
		if u.ExecUnitTemplate == nil {
			continue
		}
		for _, c := range u.ExecUnitTemplate.PodTemplate.Spec.Containers {
			for _, e := range c.Env {
				if c.Name == runnerContainer && e.Name == variable.EnvSandboxName {
					who.sandbox = e.Value
				} else if c.Name == runnerContainer && e.Name == variable.EnvRoutingKey {
					who.key = e.Value
				}
			}
		}
	}
	return who
}
