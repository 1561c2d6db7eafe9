package istioadapter

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/meshes/istio"
)

// TestAnErrorInRenderingIsOfOneObject renders an object with a Go int, which no decoder returns and
// Kubernetes code panics on.
func TestAnErrorInRenderingIsOfOneObject(t *testing.T) {
	m := istio.New(istio.Settings{ClusterDomain: "cluster.local"}, []istio.Service{{Namespace: "shop", Name: "customer", Ports: []int32{80},
		Sandboxes: []istio.Sandbox{{Key: "k1", Mappings: []crdv1.IstioPortMapping{{FromPort: 80, ToService: "of-k1"}}}}}}, nil)
	o := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"namespace": "shop", "name": "odd"},
		"spec":     map[string]any{"http": []any{map[string]any{"retries": 3, "route": []any{map[string]any{"destination": map[string]any{"host": "customer"}}}}}},
	}}
	r := render(m, o, nil)
	if r.Changed || r.Object != o {
		t.Errorf("it is %+v", r)
	}
	findings := m.Report(types.NamespacedName{Namespace: "shop", Name: "customer"}, "k1", []istio.Rendering{*r}).Findings
	if len(findings) == 0 || !findings[0].Lost || !strings.Contains(findings[0].Message+findings[len(findings)-1].Message, "an error of the operator") {
		t.Errorf("it is told %+v", findings)
	}
}
