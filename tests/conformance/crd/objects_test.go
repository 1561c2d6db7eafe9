package crd_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// examples are the objects of one kind in testdata/objects, as the published
// operator and its users write them.
type examples struct {
	full    *unstructured.Unstructured // every field that there is
	minimal *unstructured.Unstructured // the required fields of the spec alone
}

// readObjects reads testdata/objects, by kind.
func readObjects(t *testing.T) map[string]examples {
	t.Helper()
	paths, err := filepath.Glob("testdata/objects/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]examples{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		full, minimal, _ := strings.Cut(string(text), "\n---\n")
		e := examples{full: readObject(t, path, full), minimal: readObject(t, path, minimal)}
		out[e.full.GetKind()] = e
	}
	if len(out) != 12+len(added) {
		t.Fatalf("testdata/objects has %d kinds, want %d", len(out), 12+len(added))
	}
	return out
}

// readObject reads one document of a file.
func readObject(t *testing.T, path, text string) *unstructured.Unstructured {
	t.Helper()
	asJSON, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(asJSON); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return object
}

func TestTheFullObjectsHaveEveryPublishedField(t *testing.T) {
	tr, objects := readTranscript(t), readObjects(t)
	for _, kind := range tr.kinds {
		used := map[string]bool{}
		for _, part := range []string{"spec", "status"} {
			paths(used, part, objects[kind.name].full.Object[part])
		}
		for path := range tr.published(t, kind) {
			if !slices.ContainsFunc([]string{path, mapKey(path)}, func(p string) bool { return used[p] }) {
				t.Errorf("the full %s of testdata/objects does not use %s", kind.name, path)
			}
		}
	}
}

// mapKey returns the path with the values of maps named as in the examples,
// where one key stands for all.
func mapKey(path string) string {
	return strings.NewReplacer(
		"resourceTemplateData{}", "resourceTemplateData.db",
		"readyManagedResources{}", "readyManagedResources.db",
		"labels{}", "labels.machine",
		"meta{}", "meta.type",
	).Replace(path)
}

// paths notes every path of a value.
func paths(into map[string]bool, path string, value any) {
	into[path] = true
	switch value := value.(type) {
	case map[string]any:
		for key, below := range value {
			paths(into, path+"."+key, below)
		}
	case []any:
		for _, item := range value {
			paths(into, path+"[]", item)
		}
	}
}

func TestTheGoTypesKeepEveryFieldOfAnObject(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := crdv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for kind, objects := range readObjects(t) {
		for _, object := range []*unstructured.Unstructured{objects.full, objects.minimal} {
			typed, err := scheme.New(crdv1.GroupVersion().WithKind(kind))
			if err != nil {
				t.Fatal(err)
			}
			written, back := rewrite(t, object, typed)
			if kind == "Job" { // canceled is required, so it is always written
				written["spec"].(map[string]any)["canceled"] = false
			}
			if diff := cmp.Diff(written, back); diff != "" {
				t.Errorf("%s %s (-given +written back):\n%s", kind, object.GetName(), diff)
			}
		}
	}
}

// rewrite reads the object into a Go value, refusing fields that it does not
// have, writes that value, and gives both as plain data.
func rewrite(t *testing.T, object *unstructured.Unstructured, into runtime.Object) (given, back map[string]any) {
	t.Helper()
	text, err := object.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := strictjson.UnmarshalStrict(text, into)
	if err != nil || len(problems) > 0 {
		t.Fatalf("%s %s does not fit its Go type: %v %v", object.GetKind(), object.GetName(), err, problems)
	}
	written, err := json.Marshal(into)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		text []byte
		into *map[string]any
	}{{text, &given}, {written, &back}} {
		if err := json.Unmarshal(step.text, step.into); err != nil {
			t.Fatal(err)
		}
	}
	return given, back
}
