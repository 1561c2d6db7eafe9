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
	got := compile.Warnings(spec.Plugin{Spec: spec.PluginSpec{Create: steps("path", "size", "java-tool-options"), Delete: steps("ld-preload", "home")}})
	const says = " of the script, which shells and programs read: give the input another one with as: {env: NAME}"
	want := "spec.create[0].inputs[0] sets variable PATH" + says + "\nspec.create[0].inputs[2] sets variable JAVA_TOOL_OPTIONS" + says + "\nspec.delete[0].inputs[0] sets variable LD_PRELOAD" + says + "\nspec.delete[0].inputs[1] sets variable HOME" + says
	if got.Error() != want {
		t.Errorf("got\n%s", got.Error())
	}
}

func TestScriptsOfOtherEditorsAreReported(t *testing.T) {
	for script, want := range map[string]string{
		"#!/bin/sh\necho\n":          "",
		"#!/bin/sh\nprintf 'a\rb'\n": "",
		"#!/bin/sh\r\necho\r\n":      "spec.create[0].script has a carriage return at the end of its line 1: save the script with line ends of Unix (LF)",
		"#!/bin/sh\necho\necho\r\n":  "spec.create[0].script has a carriage return at the end of its line 3: save the script with line ends of Unix (LF)",
		"\ufeff#!/bin/sh\n":          "spec.create[0].script begins with a byte order mark, in front of its first line: save the script as UTF-8 without it",
	} {
		p := spec.Plugin{Name: "p", Spec: spec.PluginSpec{Runner: spec.Runner{Image: "i"}, Create: []spec.Step{{Name: "s", Script: script}}}}
		got := ""
		if found := compile.Plugin(p); len(found) > 0 {
			got = found.Error()
		}
		if got != want {
			t.Errorf("%q: %q", script, got)
		}
	}
}
