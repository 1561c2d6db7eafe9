package specfile_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/workflows/specfile"
)

// thing is what the tests read.
type thing struct {
	Name string `json:"name"`
	Spec struct {
		Text    string            `json:"text"`
		Texts   []string          `json:"texts"`
		Labels  map[string]string `json:"labels"`
		Port    int32             `json:"port"`
		Yes     *bool             `json:"yes"`
		Objects []struct {
			Key string `json:"key"`
		} `json:"objects"`
	} `json:"spec"`
}

// files are those that can be embedded.
var files = map[string]string{
	"plain.txt": "line 1\nline @{not} replaced\n", "list.yaml": "- {key: a}\n- key: b\n", "binary": "\xff\x00", "bad.yaml": "a: b: c", "./sub/empty": "",
}

func embed(path string) ([]byte, error) {
	if text, ok := files[path]; ok {
		return []byte(text), nil
	}
	return nil, fmt.Errorf("there is no file %s", path)
}

// read takes a text apart with variables, as a client does.
func read(text string, values specfile.Values) (thing, error) {
	var out thing
	f, err := specfile.Parse("f.yaml", []byte(text))
	if err == nil {
		err = f.Expand(values, embed)
	}
	if err == nil {
		err = f.Decode(&out)
	}
	return out, err
}

func TestDirectivesAreReplaced(t *testing.T) {
	for _, tt := range []struct{ spec, want string }{
		{`text: "@{a}"`, "text=x"},
		{`text: "<@{a}@{ b.c }@{d_e-1}>"`, "text=<xyz>"},
		{`text: "@{a[raw]}"`, "text=x"},
		{`text: "@{a[binary]}"`, "text=eA=="},
		{`text: "@{ embed : binary }"`, `f.yaml:3: spec.text @{ embed : binary } is not text; use [binary] to have it in base64`},
		{`text: "@{embed[binary]: binary}"`, "text=/wA="},
		{`text: "@{embed: plain.txt}"`, "text=line 1\nline @{not} replaced\n"},
		{`text: "a @{embed:./sub/empty}b"`, "text=a b"},
		{`objects: "@{embed[yaml]: list.yaml}"`, "objects=a,b"},
		{`text: "@{embed[yaml]: ./sub/empty}"`, ""},
		{`port: "@{port}"`, "port=8080"},
		{`port: "@{port[yaml]}"`, "port=8080"},
		{`yes: "@{yes[yaml]}"`, "yes=true"},
		{`{"text": "@{a}", "labels": {"k": "@{a}"}}`, "text=x labels=map[k:x]"},
		{`text: "@{} a@b.c @{ x"`, "text=@{} a@b.c @{ x"},
		{`text: "@{nested}"`, "text=@{a}"},
		{`yes: "@{yes}"`, `f.yaml:3: spec.yes must be true or false, not the text "true"`},
		{`objects: "@{embed[yaml]: bad.yaml}"`, `f.yaml:3: spec.objects is replaced by a value that is not YAML: mapping values are not allowed in this context (on its line 1)`},
		{`text: "@{a[yaml}"`, `f.yaml:3: spec.text @{a[yaml} opens [ and does not close it`},
		{`objects: [{key: "@{one}"}, {kye: "@{two}"}]`, `f.yaml:3: uses variables without a value: one (line 3), two (line 3); set them with --set one=… --set two=…`},
	} {
		got, err := read("name: n\nspec:\n  "+tt.spec, specfile.Values{
			"a": "x", "b.c": "y", "d_e-1": "z", "port": "8080", "yes": "true", "nested": "@{a}",
		})
		text := shown(got)
		if err != nil {
			text = err.Error()
		}
		if diff := cmp.Diff(tt.want, text); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.spec, diff)
		}
	}
}

// shown returns the decoded thing in one line.
func shown(got thing) string {
	var out []string
	add := func(name string, is bool, value any) {
		if is {
			out = append(out, fmt.Sprintf("%s=%v", name, value))
		}
	}
	add("text", got.Spec.Text != "", got.Spec.Text)
	add("port", got.Spec.Port != 0, got.Spec.Port)
	add("labels", got.Spec.Labels != nil, got.Spec.Labels)
	if got.Spec.Yes != nil {
		add("yes", true, *got.Spec.Yes)
	}
	var keys []string
	for _, o := range got.Spec.Objects {
		keys = append(keys, o.Key)
	}
	add("objects", len(keys) > 0, strings.Join(keys, ","))
	return strings.Join(out, " ")
}

func TestValuesOfVariables(t *testing.T) {
	got, err := specfile.ValuesOf([]string{"a=1", "b=x=y", "c=", "a=1"})
	if diff := cmp.Diff(specfile.Values{"a": "1", "b": "x=y", "c": ""}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for set, want := range map[string]string{
		"a":          "--set a has no value; write --set NAME=VALUE",
		"1a=x":       `--set 1a=x: "1a" is not a variable; a name is a letter, then letters, digits, _ . and -`,
		"a=1,then=2": "",
		"a=1\x00a=2": `--set gives a two values, "1" and "2"; give it one`,
	} {
		_, err := specfile.ValuesOf(strings.Split(set, "\x00"))
		if text := fmt.Sprint(err); text != want && (want != "" || err != nil) {
			t.Errorf("%q: %s", set, text)
		}
	}
}

// TestAliasesStandForTheirAnchors reads what YAML lets people write once.
func TestAliasesStandForTheirAnchors(t *testing.T) {
	got, err := read(`
name: &n name
spec:
  text: *n
  objects:
    - &one {key: first}
    - *one
    - {<<: *one}
    - {<<: [{key: second}, *one], key: third}
    - <<: [{key: fourth}, *one]
`, nil)
	if want := "text=name objects=first,first,first,third,fourth"; shown(got) != want || err != nil {
		t.Errorf("%s, not %s: %v", shown(got), want, err)
	}
	bomb := "name: n\nspec:\n  texts: [&a x"
	for i := range 20 {
		bomb += fmt.Sprintf(", &%c [*%c, *%c]", 'b'+i, 'a'+i, 'a'+i)
	}
	for text, says := range map[string]string{
		bomb + "]":                "holds more than 20000 values",
		"name: &a [*a]\nspec: {}": "nested more than 64 levels deep",
		"name: n\nspec: {<<: x}":  "has << before something that is not an object",
		"name: n\nspec: {[a]: x}": "has a field name that is not text",
		strings.Repeat("[", 200):  "is not YAML",
		"name: n\nspec: " + strings.Repeat("[", 80) + strings.Repeat("]", 80): "nested more than 64 levels deep",
		"name: n\nspec: {port: 3000000000}":                                   "spec.port must be a whole number of at most 32 bits, not the number 3000000000",
		"name: n\nspec: {port: x}":                                            `spec.port must be a whole number of at most 32 bits, not the text "x"`,
		"name: n\nspec: {texts: {a: b}}":                                      "spec.texts must be a list with items that begin with -, not an object",
		"name: n\nspec: {labels: [a]}":                                        "spec.labels must be an object, not a list",
		"name: n\nspec: {objects: [{a.b: c}]}":                                `spec.objects[0]["a.b"] is not a field; use key`,
	} {
		_, err := read(text, nil)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.60s: %v, not %s", text, err, says)
		}
	}
}

// TestTheNameIsReadAlone reads a file with variables that have no values.
func TestTheNameIsReadAlone(t *testing.T) {
	f, err := specfile.Parse("f.yaml", []byte("spec: {text: \"@{b}\", unknown: x}\nname: \"@{a}\""))
	if err != nil {
		t.Fatal(err)
	}
	f.KeepName()
	var named struct {
		Name string `json:"name"`
	}
	if err := errors.Join(f.Expand(specfile.Values{"a": "x"}, embed), f.Decode(&named)); err != nil || named.Name != "x" {
		t.Errorf("%q, %v", named.Name, err)
	}
}

// FuzzFile looks for files and variables that panic, and for problems that are no lines.
func FuzzFile(f *testing.F) {
	f.Add("name: n\nspec: {text: \"@{a}\", port: \"@{p[yaml]}\"}", "a=1", "p=- {a: *b}")
	f.Add("name: &a [*a]\nspec: {<<: [*a, {b: c}], ? [x] : y}", "a", "b=")
	f.Add("{\"name\": null, \"spec\": {\"texts\": [1e999, .nan, !!binary x, 0x1F, 2026-11-24]}}", "a=", "")
	f.Add("name: '@{embed: plain.txt}'\nspec:\n- @{x}\n\t- y\n", "", "")
	f.Fuzz(func(t *testing.T, text, first, second string) {
		values, err := specfile.ValuesOf([]string{first, second})
		if err != nil {
			values = specfile.Values{"a": first, "b": second}
		}
		_, err = read(text, values)
		var problems specfile.Problems
		if err != nil && !errors.As(err, &problems) {
			t.Fatalf("%v is not Problems", err)
		}
		for _, p := range problems {
			if p.File != "f.yaml" || p.Text == "" {
				t.Fatalf("a problem without a place or a text: %+v", p)
			}
		}
		var any struct{ Spec map[string]any }
		specfile.DecodeText("a.b", text, &any)
	})
}

func TestJSONIsDecodedStrictly(t *testing.T) {
	type value struct {
		Name  string            `json:"name"`
		Tags  map[string]string `json:"tags"`
		Ports []struct {
			Port int32 `json:"port"`
		} `json:"ports"`
	}
	var v value
	if err := specfile.DecodeJSON([]byte(`{"name":"a","tags":{"<<":"b"},"ports":[{"port":80}]}`), &v); err != nil || v.Tags["<<"] != "b" || v.Ports[0].Port != 80 {
		t.Errorf("%+v, %v", v, err)
	}
	if err := specfile.DecodeJSON([]byte(`{"name":null,"tags":null,"ports":null}`), &value{}); err != nil {
		t.Error(err)
	}
	for text, want := range map[string]string{
		`{"nam":"a"}`:                     `nam is not a field; did you mean "name"?`,
		`{"name":1}`:                      `name must be text, not the number 1; put it in quotes: "1"`,
		`{"ports":[{"port":"80"}]}`:       `ports[0].port must be a number, not the text "80"`,
		`{"ports":[{"port":80.5}]}`:       `ports[0].port must be a number, not the number 80.5`,
		`{"ports":{}}`:                    `ports must be a list with items that begin with -, not an object`,
		`{"ports":[{"port":3000000000}]}`: `ports[0].port must be a whole number of at most 32 bits, not the number 3000000000`,
	} {
		if err := specfile.DecodeJSON([]byte(text), &value{}); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
