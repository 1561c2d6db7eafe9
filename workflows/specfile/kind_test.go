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
		"spec:\n  namePrefix: a\n  runnerGroup: r\n  script: x":                "describes a job, not a sandbox; use switchyard job",
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
		"endpoints: []":           `warning f.yaml:3: has a field "endpoints" beside spec`,
		"status: {}\nendpoints: [x]\nworkloads: []\nroutingKey: k\nauthor: dora": "",
		"status: {}\nlabels: {}": "", "status: {}\nlabels: {a: b}": "f.yaml:4: has the field \"labels\" beside spec with another value than in spec; change it in spec",
		"status: {}\ntexts: []": "f.yaml:4: has the field \"texts\" beside spec; move it into spec",
		"---":                   "", "---\n": "", "---\n# nothing\n---": "", "...": "",
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

func TestHintsMatchTheirCause(t *testing.T) {
	for text, want := range map[string]string{
		"text: @{a}\n  more: @{b}":               `:3: is not YAML: found character that cannot start any token; put a text that begins with a directive in quotes: "@{name}"`,
		"text: @{a}":                             `:3: is not YAML: found character that cannot start any token; put a text that begins with a directive in quotes: "@{name}"`,
		"texts: [a, @{a}]":                       `:3: is not YAML: found character that cannot start any token; put a text that begins with a directive in quotes: "@{name}"`,
		"texts:\n  - @{a}\r":                     `:4: is not YAML: found character that cannot start any token; put a text that begins with a directive in quotes: "@{name}"`,
		"text: a: b\n  more: \"@{x}\"":           `:3: is not YAML: mapping values are not allowed in this context; put a text that contains ": " in quotes`,
		"text: |\n    - @{b}\n  x: y: z":         `:5: is not YAML: mapping values are not allowed in this context; put a text that contains ": " in quotes`,
		"text: a, @{b}\n  x: `z`":                `:4: is not YAML: found character that cannot start any token; put a text that begins with this character in quotes`,
		"text: \"@{a}\" x":                       `:3: is not YAML: did not find expected key; put the quotes around the whole text`,
		"text: 'a, @{b}\n  x: y":                 `:3: is not YAML: found unexpected end of stream; close the quotes`,
		"objects: {a: b\n  # c\nmore: c":         `:3: is not YAML: did not find expected ',' or '}'; close the brace {`,
		`text: "a\qb"`:                           `:3: is not YAML: found unknown escape character; write \\ for a backslash in double quotes, or use single quotes`,
		"text: {{ .x }}":                         `:3: has a field name that is not text; put a text that begins with {{ in quotes`,
		"text: a\n\n\n  objects:\n   - a\n  - b": `:8: is not YAML: did not find expected key; indent it as the line before it`,
		"text: a\n   port: 1":                    `:4: is not YAML: mapping values are not allowed in this context; indent it as the line before it`,
		"text: a\n\tport: 1":                     `:4: is not YAML: found a tab character that violates indentation; indent with spaces, not with tabs`,
		"text: 1\n  texts:\n  - *a\n  - b":       `:5: is not YAML: unknown anchor 'a' referenced; put a text that begins with this character in quotes`,
		"text: 1\n  texts: [\x01]":               `:4: is not YAML: control characters are not allowed`,
		"text: 1\n  texts: [\xff]":               `:4: is not YAML: invalid leading UTF-8 octet`,
		"text: 1\n  @{a}: b":                     `:4: is not YAML: found character that cannot start any token`,
	} {
		_, err := specfile.Parse("f.yaml", []byte("name: n\nspec:\n  "+text+"\n"))
		if got := fmt.Sprint(err); got != "f.yaml"+want {
			t.Errorf("%q: %s, not f.yaml%s", text, got, want)
		}
	}
}
