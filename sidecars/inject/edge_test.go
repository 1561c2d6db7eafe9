package inject

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"switchyard.dev/sidecars/devmesh"
)

func TestAnEdgeConfiguresItsSidecar(t *testing.T) {
	for value, c := range map[string]struct {
		edge bool
		warn string
	}{
		"":      {false, ""}, // no annotation
		"false": {false, ""},
		"true":  {true, ""},
		"yes":   {true, `"yes" is neither "true" nor "false"; it is taken for "true"`},
	} {
		pod := baseline(func(p *corev1.Pod) {
			if value != "" {
				p.Annotations[AnnotationEdge] = value
			}
		})
		raw, err := json.Marshal(pod)
		if err != nil {
			t.Fatal(err)
		}
		result, err := Inject(raw, Namespace{Name: "shop"}, testConfig())
		if err != nil {
			t.Fatal(err)
		}
		var injected corev1.Pod
		if err := json.Unmarshal(apply(t, raw, result.Patch), &injected); err != nil {
			t.Fatal(err)
		}
		told := false
		for _, v := range injected.Spec.InitContainers[0].Env {
			told = told || v.Name == devmesh.EnvEdge && v.Value == devmesh.EdgeYes
		}
		if told != c.edge {
			t.Errorf("%q: the sidecar is told that it is an edge: %t, want %t", value, told, c.edge)
		}
		if warned := strings.Join(result.Warnings, "; "); !strings.Contains(warned, c.warn) || c.warn == "" && warned != "" {
			t.Errorf("%q: the warnings are %q, want %q", value, warned, c.warn)
		}
	}
}
