package compile

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"switchyard.dev/protos/crd/variable/unsafeenv"
	"switchyard.dev/workflows/iocontext"
	"switchyard.dev/workflows/spec"
	"switchyard.dev/workflows/specfile"
)

// Plugin returns the problems of a resource plugin.
func Plugin(p spec.Plugin) specfile.Problems {
	c := pluginCheck{plugin: p, steps: map[string]string{}}
	if _, err := spec.ParsePluginName(p.Name); err != nil {
		c.problems.Add("name", "%v", err)
	}
	c.runner()
	if len(p.Spec.Create)+len(p.Spec.Delete) == 0 {
		c.problems.Add("spec", "has no steps; add create or delete")
	}
	for i, s := range p.Spec.Create {
		c.step(fmt.Sprintf("spec.create[%d]", i), s, p.Spec.Create)
	}
	for i, s := range p.Spec.Delete {
		c.step(fmt.Sprintf("spec.delete[%d]", i), s, slices.Concat(p.Spec.Create, p.Spec.Delete))
	}
	return c.problems
}

// Warnings returns inputs of a plugin that override variables which shells and loaders read.
func Warnings(p spec.Plugin) (out specfile.Problems) {
	for part, name := range []string{"create", "delete"} {
		for i, s := range [][]spec.Step{p.Spec.Create, p.Spec.Delete}[part] {
			for j, in := range s.Inputs {
				env := destination(in).Env
				if unsafeenv.Changes(env) {
					out.Add(fmt.Sprintf("spec.%s[%d].inputs[%d]", name, i, j),
						"sets variable %s of the script, which shells and programs read: give the input another one with as: {env: NAME}", env)
				}
			}
		}
	}
	return out
}

// pluginCheck is one check of a plugin.
type pluginCheck struct {
	plugin   spec.Plugin
	problems specfile.Problems
	steps    map[string]string // the path of each step, by its name
}

// runner checks the runner of the steps.
func (c *pluginCheck) runner() {
	r := c.plugin.Spec.Runner
	if r.Image == "" {
		c.problems.Add("spec.runner.image", "is missing; the scripts run in it")
	}
	if r.Namespace != "" && len(validation.IsDNS1123Label(r.Namespace)) > 0 {
		c.problems.Add("spec.runner.namespace", "is %q, which is not a valid name", r.Namespace)
	}
	const at = "spec.runner.podTemplateOverlay"
	var typed corev1.PodTemplateSpec
	if found := specfile.DecodeText(at, r.PodTemplateOverlay, &typed); len(found) > 0 {
		c.problems = append(c.problems, found...)
	} else if _, err := podTemplate(r, identity{}); err != nil {
		c.problems.Add(at, "%v", err)
	}
}

// overlayOf returns the overlay as JSON. The text of the error is the end of a sentence.
func overlayOf(r spec.Runner) (json.RawMessage, error) {
	var overlay json.RawMessage
	if found := specfile.DecodeText("", r.PodTemplateOverlay, &overlay); len(found) > 0 {
		return nil, found
	}
	if len(overlay) == 0 {
		return json.RawMessage("{}"), nil
	}
	return overlay, nil
}

// step checks one step, which may read outputs of readable.
func (c *pluginCheck) step(at string, s spec.Step, readable []spec.Step) {
	checkName(&c.problems, at+".name", s.Name, unitName)
	if other, taken := c.steps[s.Name]; taken {
		c.problems.Add(at+".name", "is %q, which %s already has; create and delete steps need different names", s.Name, other)
	}
	c.steps[s.Name] = at
	c.script(at+".script", s.Script)
	inputs, env, outputs := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i, in := range s.Inputs {
		place := fmt.Sprintf("%s.inputs[%d]", at, i)
		checkName(&c.problems, place+".name", in.Name, unitName)
		if inputs[in.Name] {
			c.problems.Add(place+".name", "is %q, which another input of the step has", in.Name)
		}
		inputs[in.Name] = true
		c.source(place, s, in, readable)
		c.destination(place+".as", in, env)
	}
	for i, o := range s.Outputs {
		place := fmt.Sprintf("%s.outputs[%d]", at, i)
		checkName(&c.problems, place+".name", o.Name, unitName)
		if outputs[o.Name] {
			c.problems.Add(place+".name", "is %q, which another output of the step has", o.Name)
		}
		outputs[o.Name] = true
		if key := outputKey(s.Name, o.Name); len(key) > maxKey {
			c.problems.Add(place+".name", "makes the key %q of %d characters; the limit is %d", key, len(key), maxKey)
		}
		if !strings.HasPrefix(o.ValueFromPath, "/") {
			c.problems.Add(place+".valueFromPath", "is %q; write the absolute path of a file, such as /tmp/%s", o.ValueFromPath, o.Name)
		}
	}
}

// byteOrderMark is inserted by some editors at the beginning of a text.
const byteOrderMark = "\ufeff"

// script checks the text of a script. The kernel does not find the interpreter after a byte order
// mark or before a carriage return, and shells treat a carriage return as part of a word.
func (c *pluginCheck) script(at, text string) {
	text, marked := strings.CutPrefix(text, byteOrderMark)
	switch {
	case marked:
		c.problems.Add(at, "begins with a byte order mark, in front of its first line: save the script as UTF-8 without it")
	case !strings.HasPrefix(text, "#!"):
		c.problems.Add(at, "must begin with #! and an interpreter, such as #!/bin/sh")
	}
	for i, line := range strings.Split(text, "\n") {
		if strings.HasSuffix(line, "\r") {
			c.problems.Add(at, "has a carriage return at the end of its line %d: save the script with line ends of Unix (LF)", i+1)
			return
		}
	}
}

// maxKey is the maximum length of the key of an output.
const maxKey = 60

// source checks the source of an input.
func (c *pluginCheck) source(at string, s spec.Step, in spec.Input, readable []spec.Step) {
	switch from := in.ValueFromStep; {
	case from != nil && in.ValueFromSandbox:
		c.problems.Add(at, "has both valueFromSandbox and valueFromStep; remove one of them")
	case from == nil && !in.ValueFromSandbox:
		c.problems.Add(at, "has no source; add valueFromSandbox: true or valueFromStep")
	case from != nil:
		var names []string
		for _, other := range readable {
			if other.Name == from.Name {
				c.produced(at+".valueFromStep.output", other, from.Output)
				return
			}
			if other.Name != s.Name {
				names = append(names, other.Name)
			}
		}
		c.problems.Add(at+".valueFromStep.name", "is %q, which is not a step that runs before%s", from.Name, specfile.Suggest(from.Name, names))
	}
}

// produced checks that a step has an output.
func (c *pluginCheck) produced(at string, s spec.Step, output string) {
	var names []string
	for _, o := range s.Outputs {
		if o.Name == output {
			return
		}
		names = append(names, o.Name)
	}
	c.problems.Add(at, "is %q, which step %s does not have%s", output, s.Name, specfile.Suggest(output, names))
}

// destination checks the destination of an input; env are the variables of previous inputs.
func (c *pluginCheck) destination(at string, in spec.Input, env map[string]bool) {
	to := destination(in)
	if to.LocalPath != "" && !strings.HasPrefix(to.LocalPath, "/") {
		c.problems.Add(at+".path", "is %q; write the absolute path of a file, such as /tmp/%s", to.LocalPath, in.Name)
	}
	if to.Env == "" {
		return
	}
	if len(validation.IsEnvVarName(to.Env)) > 0 {
		c.problems.Add(at+".env", "is %q, which is not a valid name", to.Env)
	} else if strings.HasPrefix(to.Env, iocontext.ReservedVariables) {
		c.problems.Add(at+".env", "is %s, and variables that begin with %s are the operator's: give the input another one with as: {env: NAME}", to.Env, iocontext.ReservedVariables)
	} else if env[to.Env] {
		c.problems.Add(at+".env", "is %s, which another input of the step has", to.Env)
	}
	env[to.Env] = true
}
