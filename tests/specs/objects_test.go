package specs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"switchyard.dev/tests/world"
)

func TestMain(m *testing.M) { world.Main(m) }

// TestPublishedSpecificationsAreKeptWhole creates what the golden files of workflows/compile
// have, and reads it again.
func TestPublishedSpecificationsAreKeptWhole(t *testing.T) {
	w := world.Shared(t)
	paths, err := filepath.Glob("../../workflows/compile/testdata/published/*.object")
	if err != nil || len(paths) == 0 {
		t.Fatal("no objects", err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		w.Must(err)
		want := &unstructured.Unstructured{}
		w.Must(yaml.Unmarshal(text, &want.Object))
		got := want.DeepCopy()
		if err := w.Client.Create(t.Context(), got, client.FieldValidation("Strict")); err != nil {
			t.Errorf("%s: %v", filepath.Base(path), err)
			continue
		}
		if diff := cmp.Diff(content(w, want), content(w, got)); diff != "" {
			t.Errorf("%s was changed (-compiled +kept):\n%s", filepath.Base(path), diff)
		}
	}
}

// content returns what the compiler wrote of an object.
func content(w *world.World, o *unstructured.Unstructured) string {
	w.Helper()
	text, err := yaml.Marshal(map[string]any{"spec": o.Object["spec"], "annotations": o.GetAnnotations()})
	w.Must(err)
	return string(text)
}
