package compile

import (
	"strings"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/spec"
)

// identity is the resource that a step works on.
type identity struct {
	sandbox, key, resource string
	params                 map[string]string
}

// lifecycle returns the units that create and delete a resource. The plugin has passed Plugin.
func lifecycle(p spec.Plugin, who identity) crdv1.OLM {
	var out crdv1.OLM
	for _, s := range p.Spec.Create {
		out.PreStart = append(out.PreStart, unit(p, s, who))
	}
	for _, s := range p.Spec.Delete {
		out.PostStop = append(out.PostStop, unit(p, s, who))
	}
	return out
}

// unit returns the unit that runs one step.
func unit(p spec.Plugin, s spec.Step, who identity) crdv1.WorkUnit {
	pod, _ := podTemplate(p.Spec.Runner, who) // the plugin has passed Plugin
	u := crdv1.WorkUnit{Name: s.Name, Type: "ExecUnit", ExecUnitTemplate: &crdv1.ExecUnitTemplate{PodTemplate: pod, Script: s.Script}}
	if s.Retry {
		pod := &u.ExecUnitTemplate.PodTemplate
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		pod.Annotations[crdv1.AnnotationRetryLost] = "true"
	}
	for _, in := range s.Inputs {
		input := crdv1.WorkUnitInput{Name: in.Name, Value: who.params[in.Name]}
		if from := in.ValueFromStep; from != nil {
			input.Value, input.IOContext = "", &crdv1.IOContextRef{Key: outputKey(from.Name, from.Output)}
		}
		u.Inputs = append(u.Inputs, input)
		u.ExecUnitTemplate.InputInjects = append(u.ExecUnitTemplate.InputInjects, crdv1.InputInject{InputName: in.Name, Dst: destination(in)})
	}
	for _, o := range s.Outputs {
		u.Outputs = append(u.Outputs, crdv1.WorkUnitOutput{Name: o.Name})
		u.ExecUnitTemplate.OutputExports = append(u.ExecUnitTemplate.OutputExports, crdv1.OutputExport{OutputName: o.Name, FromPath: o.ValueFromPath})
	}
	return u
}

// destination returns where a script finds an input: by default, in a variable named after the
// input.
func destination(in spec.Input) crdv1.InputDestination {
	if in.As != nil && *in.As != (spec.InputTo{}) {
		return crdv1.InputDestination{Env: in.As.Env, LocalPath: in.As.Path}
	}
	return crdv1.InputDestination{Env: strings.ReplaceAll(strings.ToUpper(in.Name), "-", "_")}
}
