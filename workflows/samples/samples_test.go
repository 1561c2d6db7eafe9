package samples_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"switchyard.dev/tests/golden"
	"switchyard.dev/workflows/compile"
	"switchyard.dev/workflows/engine"
	"switchyard.dev/workflows/spec"
	"switchyard.dev/workflows/specfile"
)

// names are those of the samples.
var names = []string{"helm", "kubernetes", "opentofu", "postgres", "python", "queue"}

// most is how many lines of YAML a sample may have, including its scripts.
const most = 39

// read reads a file as the command line does.
func read(t *testing.T, path string, into any) *specfile.File {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := specfile.Parse(path, text)
	if err == nil {
		err = f.Expand(nil, func(name string) ([]byte, error) { return os.ReadFile(filepath.Join(filepath.Dir(path), name)) })
	}
	if err == nil {
		err = f.Decode(into)
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestEachSampleCompiles(t *testing.T) {
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			var p spec.Plugin
			var s spec.Sandbox
			f := read(t, filepath.Join(name, "plugin.yaml"), &p)
			if problems := f.Locate(compile.Plugin(p)); len(problems) > 0 {
				t.Fatal(problems)
			}
			f = read(t, filepath.Join(name, "sandbox.yaml"), &s)
			out, err := compile.Sandbox(compile.Input{Sandbox: s, Plugins: []spec.Plugin{p}})
			if err != nil {
				t.Fatal(err)
			}
			if notes := f.Locate(out.Notes); len(notes) > 0 {
				t.Error(notes)
			}
			object, err := yaml.Marshal(out.Sandbox)
			if err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, filepath.Join("testdata", name+".object"), string(object))
			if p.Name != name || len(engine.Picture(out.Sandbox.Spec.ManagedResources[0].OLM.PreStart)) == 0 {
				t.Errorf("plugin %s makes nothing, or is not named after its folder", p.Name)
			}
		})
	}
}

// TestEachSampleIsSmallAndExplained counts the lines that a user has to write: no comments, and
// nothing of the deployed stack or chart.
func TestEachSampleIsSmallAndExplained(t *testing.T) {
	folders, err := filepath.Glob("*/plugin.yaml")
	if err != nil || len(folders) != len(names) {
		t.Fatalf("%d samples, not %d: %v", len(folders), len(names), err)
	}
	for _, name := range names {
		paths, err := filepath.Glob(filepath.Join(name, "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		lines := 0
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(text)) {
				line = strings.TrimSpace(line)
				if comment := strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "#!"); line != "" && line != "---" && !comment {
					lines++
				}
			}
		}
		if lines > most {
			t.Errorf("%s has %d lines; at most %d", name, lines, most)
		}
		readme, err := os.ReadFile(filepath.Join(name, "README.md"))
		if err != nil || !strings.Contains(string(readme), "switchyard resourceplugin apply -f workflows/samples/"+name+"/plugin.yaml") {
			t.Errorf("%s: its README does not show how to apply it: %v", name, err)
		}
	}
}
