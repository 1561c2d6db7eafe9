package compile_test

import (
	"testing"

	"switchyard.dev/workflows/compile"
	"switchyard.dev/workflows/spec"
)

func TestInputsInPlaceOfSystemVariablesAreReported(t *testing.T) {
	steps := func(names ...string) []spec.Step {
		s := spec.Step{Name: "s"}
		for _, n := range names {
			s.Inputs = append(s.Inputs, spec.Input{Name: n, ValueFromSandbox: true})
		}
		return []spec.Step{s}
	}
	got := compile.Warnings(spec.Plugin{Spec: spec.PluginSpec{Create: steps("path", "size"), Delete: steps("ld-preload", "home")}})
	const says = " of the script, which shells and programs read: give the input another one with as: {env: NAME}"
	want := "spec.create[0].inputs[0] sets variable PATH" + says + "\nspec.delete[0].inputs[0] sets variable LD_PRELOAD" + says + "\nspec.delete[0].inputs[1] sets variable HOME" + says
	if got.Error() != want {
		t.Errorf("got\n%s", got.Error())
	}
}
