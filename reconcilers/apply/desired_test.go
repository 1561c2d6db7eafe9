package apply

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	crdv1 "switchyard.dev/protos/crd/v1"
)

func wanted() *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "n", Labels: map[string]string{"a": "b"}},
		Spec: corev1.ServiceSpec{
			Type:     corev1.ServiceTypeClusterIP,
			Selector: map[string]string{"x": "y"},
			Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromString("http")}},
		},
	}
}

// stored is the object as the API server and its cache have it after it was
// applied: with the hash, defaults, and without its kind.
func stored(t *testing.T, want *corev1.Service) *corev1.Service {
	t.Helper()
	doc, err := document(want)
	if err != nil {
		t.Fatal(err)
	}
	have := want.DeepCopy()
	have.TypeMeta = metav1.TypeMeta{}
	have.Annotations = doc.GetAnnotations()
	have.UID, have.ResourceVersion = "u", "1"
	have.Spec.ClusterIP, have.Spec.SessionAffinity = "10.0.0.1", "None"
	have.Spec.Ports[0].Protocol = "TCP"
	have.Labels["of"] = "somebody else"
	return have
}

func TestInLine(t *testing.T) {
	tests := []struct {
		name   string
		want   func(s *corev1.Service)
		have   func(s *corev1.Service)
		inLine bool
	}{
		{"what was applied is in line, with defaults and fields of others", nil, nil, true},
		{"a field that somebody changed is not", nil, func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 }, false},
		{"a label that somebody took away is not", nil, func(s *corev1.Service) { delete(s.Labels, "a") }, false},
		{"an entry that somebody put into a list is not", nil, func(s *corev1.Service) {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Port: 90})
		}, false},
		{"a wish that has changed is not", func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 }, nil, false},
		{"a wish that is given up is not", func(s *corev1.Service) { s.Labels = nil }, nil, false},
		{"the status is nobody's wish", func(s *corev1.Service) {
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "1.2.3.4"}}
		}, nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want, have := wanted(), stored(t, wanted())
			if tt.want != nil {
				tt.want(want)
			}
			if tt.have != nil {
				tt.have(have)
			}
			doc, err := document(want)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := inLine(doc, have); err != nil || got != tt.inLine {
				t.Errorf("in line: %t, %v", got, err)
			}
		})
	}
}

// TestContains compares with the plain meaning: what contains something still
// does when more is put into its objects, and does not when a value of the
// wanted differs.
func TestContains(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := tree(3).Draw(t, "want")
		if !contains(want, want) {
			t.Fatal("a value does not contain itself")
		}
		if !contains(grow(want), want) {
			t.Fatal("a value with more fields does not contain what it was")
		}
		if contains(wrong(want), want) {
			t.Fatalf("%v is taken for %v", wrong(want), want)
		}
	})
}

// tree generates JSON values, without empty ones, which are equal to absent ones.
func tree(depth int) *rapid.Generator[any] {
	scalar := rapid.OneOf(rapid.Int64().AsAny(), rapid.StringN(1, 4, -1).AsAny(), rapid.Bool().AsAny())
	if depth == 0 {
		return scalar
	}
	return rapid.OneOf(scalar,
		rapid.Map(rapid.MapOfN(rapid.StringN(1, 3, -1), tree(depth-1), 1, 3), func(m map[string]any) any { return m }),
		rapid.Map(rapid.SliceOfN(tree(depth-1), 1, 3), func(s []any) any { return s }))
}

// grow puts a field into every object.
func grow(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{"more than three": true}
		for key, item := range v {
			out[key] = grow(item)
		}
		return out
	case []any:
		var out []any
		for _, item := range v {
			out = append(out, grow(item))
		}
		return out
	}
	return v
}

// wrong changes every scalar.
func wrong(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, item := range v {
			out[key] = wrong(item)
		}
		return out
	case []any:
		var out []any
		for _, item := range v {
			out = append(out, wrong(item))
		}
		return out
	case int64:
		return float64(v/2) + 0.5
	case string:
		return v + "!"
	case bool:
		return !v
	}
	return v
}

func TestOnWhoseBehalfItIsWrittenIsNoWish(t *testing.T) {
	on := func(behalf string) *corev1.Service {
		s := wanted()
		s.Annotations = map[string]string{crdv1.AnnotationOnBehalf: behalf, "wish": "yes"}
		return s
	}
	have := stored(t, on("generation 1"))
	later := on("generation 2")
	doc, err := document(later)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := inLine(doc, have); err != nil || !ok {
		t.Errorf("an object that stays as it is would be written for generation 2: %t, %v", ok, err)
	}
	later.Spec.Ports[0].Port = 81
	if doc, err = document(later); err != nil {
		t.Fatal(err)
	}
	if ok, err := inLine(doc, have); err != nil || ok {
		t.Errorf("an object that changes would not be written: %t, %v", ok, err)
	}
	if got := doc.GetAnnotations()[crdv1.AnnotationOnBehalf]; got != "generation 2" {
		t.Errorf("when it is written it says on behalf of %q", got)
	}
	if later.Annotations["wish"] = "no"; later.Annotations[crdv1.AnnotationOnBehalf] != "generation 2" {
		t.Error("the object that was asked for has changed")
	}
}

// In a patch null means that something goes, so it is none of our nulls.
func TestNullsOfPatchesStay(t *testing.T) {
	w := &crdv1.ForkedWorkload{Spec: crdv1.ForkedWorkloadSpec{Patches: []crdv1.Patch{{
		Strategic: &runtime.RawExtension{Raw: []byte(`{"env":[{"name":"A","value":null,"valueFrom":{}}]}`)},
	}}}}
	doc, err := document(w)
	if err != nil {
		t.Fatal(err)
	}
	written, err := json.Marshal(doc.Object)
	if err != nil || !strings.Contains(string(written), `"value":null`) {
		t.Errorf("%s, %v", written, err)
	}
}
