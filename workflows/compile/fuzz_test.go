package compile_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"switchyard.dev/workflows/compile"
	"switchyard.dev/workflows/spec"
	"switchyard.dev/workflows/specfile"
)

// FuzzCompile looks for a sandbox and a plugin in text that panic, or that come to neither an
// object nor problems with paths. That the API server takes every object is in tests/specs.
func FuzzCompile(f *testing.F) {
	for _, pattern := range []string{"testdata/published/*.yaml", "testdata/plugins/*.yaml", "testdata/plugins/*.txt"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(string(text), string(text), string(text))
		}
	}
	f.Add("name: a\nspec: {resources: [{name: r, plugin: a}]}", "name: a\nspec: {runner: {image: x}, create: [{name: s, script: '#!'}]}", "spec: {containers: [{name: main, $patch: delete}]}")
	f.Fuzz(func(t *testing.T, sandbox, plugin, overlay string) {
		var s spec.Sandbox
		var p spec.Plugin
		values := specfile.Values{"dev": "ana", "namespace": "shop", "name": "n", "cluster": "c", "port": "1", "team": "t", "commit": "c", "user": "u"}
		for text, into := range map[string]any{sandbox: &s, plugin: &p} {
			file, err := specfile.Parse("f", []byte(text))
			if err == nil {
				err = file.Expand(values, func(string) ([]byte, error) { return []byte(overlay), nil })
			}
			if err == nil {
				_ = file.Decode(into)
			}
		}
		other := p
		other.Spec.Runner.PodTemplateOverlay, other.Name = overlay, "overlaid"
		other.Spec.Runner.Image = "image"
		out, err := compile.Sandbox(compile.Input{Sandbox: s, Plugins: []spec.Plugin{p, other}})
		var problems specfile.Problems
		switch {
		case err == nil && (out.Sandbox == nil || out.Sandbox.Name != s.Name):
			t.Fatalf("neither an object nor problems: %+v", out)
		case err != nil && !errors.As(err, &problems):
			t.Fatalf("%v is not Problems", err)
		}
		for _, p := range append(problems, compile.Plugin(other)...) {
			if p.Path == "" || strings.TrimSpace(p.Text) == "" {
				t.Fatalf("a problem without a path or a text: %+v", p)
			}
		}
	})
}
