package compile_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/compile"
	"switchyard.dev/workflows/spec"
)

const failing = `
name: thing
spec:
  runner: {image: "i:1", namespace: shop, podTemplateOverlay: "spec: {serviceAccountName: x}"}
  create:
  - {name: make, inputs: [{name: mode, valueFromSandbox: true}], script: "#!/bin/sh", outputs: [{name: url, valueFromPath: /u}]}
  delete:
  - {name: drop, inputs: [{name: url, valueFromStep: {name: make, output: url}}], script: "#!/bin/sh\nrmm"}
`

// The delete steps of a mended plugin are those that the sandbox would have had with it.
func TestDeleteStepsOfAMendedPlugin(t *testing.T) {
	read := func(text string) (p spec.Plugin) {
		if err := yaml.UnmarshalStrict([]byte(text), &p); err != nil {
			t.Fatal(err)
		}
		if problems := compile.Plugin(p); len(problems) > 0 {
			t.Fatal(problems)
		}
		return p
	}
	made := func(p spec.Plugin) crdv1.OLM {
		out, err := compile.Sandbox(compile.Input{RoutingKey: "k3y", Plugins: []spec.Plugin{p}, Sandbox: spec.Sandbox{
			Name: "sb", Spec: spec.SandboxSpec{Resources: []spec.Resource{{Name: "db", Plugin: p.Name, Params: map[string]string{"mode": "ok"}}}}}})
		if err != nil {
			t.Fatal(err)
		}
		return out.Sandbox.Spec.ManagedResources[0].OLM
	}
	r := &crdv1.Resource{Spec: crdv1.ResourceSpec{Name: "db", PluginName: "thing", OLM: made(read(failing))}}
	mended := strings.NewReplacer("name: thing", "name: thing@0.0.1", "rmm", "rm", "{name: drop, inputs: [", "{name: drop, inputs: [{name: mode, valueFromSandbox: true}, ").Replace(failing)
	got, problems := compile.DeleteSteps(read(mended), r)
	if diff := cmp.Diff(made(read(mended)).PostStop, got); diff != "" || len(problems) > 0 {
		t.Errorf("%v (-want +got):\n%s", problems, diff)
	}
	for want, change := range map[string][2]string{
		`name is "other", and resource db is of plugin thing`:                                                       {"name: thing", "name: other"},
		"spec has no delete steps, so there is nothing to run; give-up deletes a resource without its delete steps": {failing[strings.Index(failing, "  delete:"):], ""},
		"spec.delete[0].inputs[0] reads the parameter size, which no step of the resource has read, so its value is not known; known are mode": {
			"{name: drop, inputs: [", "{name: drop, inputs: [{name: size, valueFromSandbox: true}, "},
		"spec.delete[0].inputs[0] reads make.u2, which no step of the resource gives; it has make.url": {"output: url}}]", "output: u2}}]"},
		`spec.delete[0].name is "make", which a step that created the resource has`:                    {"name: drop", "name: make"},
		"": {"rmm", "rm"},
	} {
		var p spec.Plugin
		if err := yaml.UnmarshalStrict([]byte(strings.Replace(failing, change[0], change[1], 1)), &p); err != nil {
			t.Fatal(err)
		}
		_, problems := compile.DeleteSteps(p, r)
		if got := problems.Error(); got != want {
			t.Errorf("%s: %q, not %q", change, got, want)
		}
	}
}
