package compile_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"switchyard.dev/workflows/compile"
	"switchyard.dev/workflows/spec"
	"switchyard.dev/workflows/specfile"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("update"); f != nil && f.Value.String() == "true" {
		if err := flag.Set("rewrite", "true"); err != nil { // What datadriven calls it.
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// TestProblemMessages shows the messages about files that are wrong: sandbox, group and plugin
// compile one, with variables of set.
func TestProblemMessages(t *testing.T) {
	all := plugins(t)
	datadriven.Walk(t, "testdata/wrong", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(_ *testing.T, d *datadriven.TestData) string {
			var set []string
			for _, arg := range d.CmdArgs {
				set = append(set, arg.Vals...)
			}
			text, err := told(d.Cmd, d.Input, set, all)
			if err != nil {
				return err.Error()
			}
			return text
		})
	})
}

// told returns the notes of a file, or its error.
func told(what, text string, set []string, all []spec.Plugin) (string, error) {
	values, err := specfile.ValuesOf(set)
	if err != nil {
		return "", err
	}
	f, err := specfile.Parse(what+".yaml", []byte(text))
	if err != nil {
		return "", err
	}
	if err := f.Expand(values, func(path string) ([]byte, error) {
		return nil, fmt.Errorf("open %s: %w", path, os.ErrNotExist)
	}); err != nil {
		return "", err
	}
	if what == "plugin" {
		var p spec.Plugin
		if err := f.Decode(&p); err != nil {
			return "", err
		}
		return "", f.Locate(compile.Plugin(p)).OrNil()
	}
	if what == "group" {
		var g spec.Group
		if err := f.Decode(&g); err != nil {
			return "", err
		}
		out, err := compile.Group(compile.GroupInput{Group: g, Sandboxes: map[string]map[string]string{"a": {"team": "shop", "feature": "x"}, "b": {"team": "pay"}, "c": nil}})
		var problems specfile.Problems
		if errors.As(err, &problems) {
			return "", f.Locate(problems)
		}
		return strings.Join(out.Group.Spec.SandboxNames, ", "), err
	}
	var s spec.Sandbox
	if err := f.Decode(&s); err != nil {
		return "", err
	}
	out, err := compile.Sandbox(compile.Input{Sandbox: s, Plugins: all})
	var problems specfile.Problems
	if errors.As(err, &problems) {
		return "", f.Locate(problems)
	}
	var lines []string
	for _, n := range f.Locate(out.Notes) {
		lines = append(lines, "note: "+n.Error())
	}
	return strings.Join(lines, "\n"), err
}
