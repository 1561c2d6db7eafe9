package specfile_test

import (
	"fmt"
	"strings"
	"testing"

	"switchyard.dev/workflows/specfile"
)

func TestFilesOfOtherKindsAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		"name: n\nspec: {forks: []}": "", "name: n\nspec: {cluster: x}": "", "apiVersion: signadot.com/v1\nkind: Sandbox\nname: n\nspec: {}": "",
		"kind: SignadotSandbox\nname: n\nspec: {}":                             "",
		"name: n\nspec:\n  match: {}":                                          "f.yaml:3: describes a route group, not a sandbox",
		"kind: SignadotRouteGroup\nname: n\nspec: {}":                          "f.yaml:1: describes a route group, not a sandbox",
		"kind: Deployment\nmetadata: {name: n}":                                "f.yaml:1: describes a Deployment, not a sandbox",
		"spec:\n  namePrefix: a\n  runnerGroup: r\n  script: x":                "describes a job, not a sandbox; switchyard has no command for it yet",
		"name: n\nspec:\n  image: i\n  scaling: {}":                            "f.yaml:4: describes a job runner group, not a sandbox",
		"name: n\nspec: {script: x}":                                           "describes a smart test, not a sandbox",
		"name: n\nspec: {create: []}":                                          "describes a resource plugin, not a sandbox; use switchyard resourceplugin",
		"kind: SignadotSandbox\nmetadata:\n  name: n\nspec: {}":                `f.yaml:3: has its name in metadata; write "name: n" at the top`,
		"name: n\nspec:\n  forks: []\n  resources: []\nmetadata: {labels: {}}": "",
	} {
		f, err := specfile.Parse("f.yaml", []byte(text))
		if err == nil {
			err = f.Check(specfile.Sandbox)
		}
		if got := fmt.Sprint(err); err == nil && want != "" || want != "" && !strings.Contains(got, want) || want == "" && err != nil {
			t.Errorf("%q: %v, not %s", text, err, want)
		}
	}
	if _, err := specfile.Parse("check.star", []byte("print(1)")); err == nil || !strings.Contains(err.Error(), "describes a smart test") {
		t.Errorf("a smart test: %v", err)
	}
}

func TestFieldsBesideSpec(t *testing.T) {
	for text, want := range map[string]string{
		"workloads: []":           `warning f.yaml:3: has a field "workloads" beside spec, which has no effect`,
		"metadata: {labels: {}}":  `warning f.yaml:3: has a field "metadata" beside spec`,
		"ports: 8080":             `f.yaml:3: has a field "ports" beside spec, which does not exist; did you mean "port" in spec?`,
		"texts: []":               `f.yaml:3: has the field "texts" beside spec; move it into spec`,
		"nmae: x":                 `f.yaml:3: has a field "nmae", which does not exist; did you mean "name"?`,
		"kind: Thing\nstatus: {}": "",
		"---":                     "", "---\n": "", "---\n# nothing\n---": "", "...": "",
		"---\nname: other\nspec: {}": "f.yaml:4: has a second document, and a file describes one object: put each in a file of its own",
	} {
		got := ""
		f, err := specfile.Parse("f.yaml", []byte("name: n\nspec: {}\n"+text))
		if err == nil {
			err = f.Decode(&thing{})
			for _, w := range f.Warnings() {
				got += "warning " + w.Error()
			}
		}
		if err != nil {
			got += err.Error()
		}
		if !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%q: %q, not %q", text, got, want)
		}
	}
}
