package istio_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/meshes/istio"
)

// etcdLimit is the maximum size of a request to etcd, in bytes.
const etcdLimit = 3 << 19

var customer = types.NamespacedName{Namespace: "app", Name: "customer"}

// crowd returns a Service with a number of sandboxes, the first of which has the number from.
func crowd(from, sandboxes int) []istio.Service {
	s := istio.Service{Namespace: "app", Name: "customer", Ports: []int32{8081}}
	for i := range sandboxes {
		key := fmt.Sprintf("k7q2m9x4v%04d", from+i)
		s.Sandboxes = append(s.Sandboxes, istio.Sandbox{Key: key, Mappings: []crdv1.IstioPortMapping{{FromPort: 8081, ToService: "customer-" + key}}})
	}
	return []istio.Service{s}
}

func crowded() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"namespace": "app", "name": "customer"},
		"spec": map[string]any{"hosts": []any{"customer"}, "http": []any{
			map[string]any{"name": "all", "route": []any{map[string]any{"destination": map[string]any{"host": "customer"}}}},
		}},
	}}
}

func reasons(findings []istio.Finding) []string {
	var all []string
	for _, f := range findings {
		all = append(all, f.Reason)
	}
	return slices.Compact(all)
}

// TestANearlyFullObjectIsReported adds sandboxes to one Service until its VirtualService is full. A
// finding reports that in advance, no object is too large to be written, and existing routes stay.
func TestANearlyFullObjectIsReported(t *testing.T) {
	settings := istio.Settings{ClusterDomain: "cluster.local", Headers: []string{"x-team"}}
	object, was := crowded(), 0
	told := map[string]int{}
	for sandboxes := 2500; sandboxes <= 3500; sandboxes += 500 {
		// The keys of new sandboxes sort first.
		m := istio.New(settings, crowd(4000-sandboxes, sandboxes), nil)
		r := m.Render(object)
		text, err := json.Marshal(r.Object)
		if err != nil || len(text) > etcdLimit {
			t.Fatalf("%d sandboxes: %d bytes, %v", sandboxes, len(text), err)
		}
		for _, reason := range reasons(r.Findings) {
			if told[reason] == 0 {
				told[reason] = sandboxes
			}
		}
		now := len(httpOf(r.Object)) - 1
		for i := 4000 - was; i < 4000; i++ {
			report := m.Report(customer, fmt.Sprintf("k7q2m9x4v%04d", i), []istio.Rendering{r})
			if status := report.Matched[0].Status; status != istio.StatusApplied {
				t.Fatalf("%d sandboxes: number %d, which had a route, is %s: %s", sandboxes, i, status, report.Matched[0].Message)
			}
		}
		if now == sandboxes {
			was = sandboxes
		} else if out := m.Report(customer, fmt.Sprintf("k7q2m9x4v%04d", 4000-was-1), []istio.Rendering{r}); reasons(out.Findings)[0] != istio.ReasonFull {
			t.Errorf("%d sandboxes, %d routes: the last one is told %v", sandboxes, now, reasons(out.Findings))
		} else {
			for _, part := range []string{"VirtualService app/customer has 14", "KiB and no room", "Remove sandboxes, or split it by host."} {
				if !strings.Contains(out.Findings[0].Message, part) {
					t.Errorf("%q does not say %q", out.Findings[0].Message, part)
				}
			}
		}
		if again := m.Render(r.Object); again.Changed {
			t.Fatalf("%d sandboxes: rendered again it differs", sandboxes)
		}
		t.Logf("%d sandboxes: %d routes, %d bytes, %v", sandboxes, now, len(text), reasons(r.Findings))
		object = r.Object
	}
	if large, full := told[istio.ReasonLarge], told[istio.ReasonFull]; large == 0 || full <= large {
		t.Errorf("large from %d sandboxes, full from %d", large, full)
	}
}

// BenchmarkOneMoreSandbox measures the rendering of a change.
func BenchmarkOneMoreSandbox(b *testing.B) {
	for _, sandboxes := range []int{1, 100, 500} {
		b.Run(fmt.Sprint(sandboxes), func(b *testing.B) {
			settings := istio.Settings{ClusterDomain: "cluster.local", Headers: []string{"x-team"}}
			object := istio.New(settings, crowd(0, sandboxes-1), nil).Render(crowded()).Object
			services := crowd(0, sandboxes)
			for b.Loop() {
				m := istio.New(settings, services, []*unstructured.Unstructured{object})
				if !m.Render(object).Changed {
					b.Fatal("unchanged")
				}
			}
		})
	}
}
