package istio_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"switchyard.dev/reconcilers/meshes/istio"
)

// lawful checks what holds of any rendering: rendering again changes nothing, the input is as
// it was, and what it is without our part is what it was without.
func lawful(t interface{ Fatalf(string, ...any) }, m *istio.Mesh, object *unstructured.Unstructured, r istio.Rendering) {
	if again := m.Render(r.Object); again.Changed {
		t.Fatalf("%s: rendered again it differs:\n%s", r.Name, cmp.Diff(r.Object.Object, again.Object.Object))
	}
	if diff := cmp.Diff(istio.Strip(object).Object, istio.Strip(r.Object).Object); diff != "" {
		t.Fatalf("%s: without our part it is not what it was:\n%s", r.Name, diff)
	}
}

var _ testing.TB
