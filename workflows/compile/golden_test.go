package compile_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"switchyard.dev/tests/golden"
	"switchyard.dev/workflows/compile"
	"switchyard.dev/workflows/spec"
	"switchyard.dev/workflows/specfile"
)

// setting is how the first comment of a file gives its variables.
var setting = regexp.MustCompile(`--set (\S+)`)

// read takes a file apart and reads it as the command line does.
func read(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var set []string
	for _, m := range setting.FindAllStringSubmatch(string(text), -1) {
		set = append(set, m[1])
	}
	values, err := specfile.ValuesOf(set)
	if err != nil {
		return err
	}
	f, err := specfile.Parse(filepath.Base(path), text)
	if err != nil {
		return err
	}
	embed := func(name string) ([]byte, error) { return os.ReadFile(filepath.Join(filepath.Dir(path), name)) }
	if err := f.Expand(values, embed); err != nil {
		return err
	}
	if err := f.Decode(into); err != nil {
		return err
	}
	if p, ok := into.(*spec.Plugin); ok {
		return f.Locate(compile.Plugin(*p)).OrNil()
	}
	return nil
}

// plugins returns all that testdata has.
func plugins(t testing.TB) []spec.Plugin {
	t.Helper()
	var out []spec.Plugin
	paths, err := filepath.Glob("testdata/plugins/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatal("no plugins", err)
	}
	for _, path := range paths {
		var p spec.Plugin
		if err := read(path, &p); err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

// TestPublishedSpecifications compiles the specifications of the published examples, paraphrased;
// the files beside them are the expected results.
func TestPublishedSpecifications(t *testing.T) {
	all := plugins(t)
	paths, err := filepath.Glob("testdata/published/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			var s spec.Sandbox
			if err := read(path, &s); err != nil {
				t.Fatal(err)
			}
			out, err := compile.Sandbox(compile.Input{Sandbox: s, Plugins: all})
			if err != nil {
				t.Fatal(err)
			}
			object, err := yaml.Marshal(out.Sandbox)
			if err != nil {
				t.Fatal(err)
			}
			text := string(object)
			for _, note := range out.Notes {
				text += "# " + note.Error() + "\n"
			}
			golden.Compare(t, strings.TrimSuffix(path, ".yaml")+".object", text)
		})
	}
}
