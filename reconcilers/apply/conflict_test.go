package apply

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// conflict is the answer of an API server to server-side apply when another manager has
// set these fields.
func conflict(fields ...string) error {
	s := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusConflict, Reason: metav1.StatusReasonConflict, Details: &metav1.StatusDetails{}}
	for _, f := range fields {
		s.Details.Causes = append(s.Details.Causes, metav1.StatusCause{
			Type: metav1.CauseTypeFieldManagerConflict, Field: f, Message: `conflict with "kubectl" using apps/v1`,
		})
	}
	return &apierrors.StatusError{ErrStatus: s}
}

func deployment() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": "f", "namespace": "n", "annotations": map[string]any{"a.b/c": "1", "d": "2"}},
		"spec":     map[string]any{"replicas": int64(3)},
	}}
}

func TestAConflictNamesTheFieldItsOwnerAndTheCommandThatEndsIt(t *testing.T) {
	for _, tt := range []struct {
		name   string
		object *unstructured.Unstructured
		fields []string
		says   string
	}{
		{"the replicas alone", deployment(), []string{".spec.replicas"},
			`Deployment n/f has fields that differ from what the sandbox asks for: .spec.replicas (by "kubectl" using apps/v1). ` +
				`Ask for them in the sandbox, or undo them: kubectl scale --replicas=3 -n n deployment.apps/f`},
		{"the replicas and something else", deployment(), []string{".spec.replicas", ".spec.x"}, "or undo them: kubectl delete -n n deployment.apps/f"},
		{"more than fit", deployment(), []string{".a", ".b", ".c", ".d", ".e"}, `.c (by "kubectl" using apps/v1), and 2 more. `},
		{"an object of the cluster", &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "signadot.com/v1", "kind": "RoutingConfig", "metadata": map[string]any{"name": "key"},
		}}, []string{".spec.x"}, "kubectl delete routingconfig.signadot.com/key"},
		{"one of the core", &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "s", "namespace": "n"},
		}}, []string{".spec.x"}, "kubectl delete -n n service/s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var refusal *Refusal
			if err := refusalOf(tt.object, conflict(tt.fields...)); !errors.As(err, &refusal) || refusal.Reason != ReasonFieldConflict {
				t.Fatal(err)
			}
			if !strings.Contains(refusal.Message, tt.says) {
				t.Error(refusal.Message)
			}
		})
	}
}

func TestOnlyWhatYieldsAndIsInConflictIsLeftOut(t *testing.T) {
	left := []Left{{Keeps: [][]string{{"spec", "replicas"}}, Yields: [][]string{{"metadata", "annotations", "a.b/c"}}}}
	for _, tt := range []struct {
		name   string
		err    error
		yields bool
		left   []string
	}{
		{"nothing is wrong", nil, false, []string{"replicas", "a.b/c", "d"}},
		{"something else is wrong", errors.New("away"), false, []string{"replicas", "a.b/c", "d"}},
		{"what yields is in conflict", conflict(".metadata.annotations.a.b/c"), true, []string{"replicas", "d"}},
		{"something else is in conflict", conflict(".metadata.annotations.d"), false, []string{"replicas", "a.b/c", "d"}},
		{"both are", conflict(".metadata.annotations.d", ".spec.replicas"), true, []string{"a.b/c", "d"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			doc := deployment()
			if got := yield(doc, tt.err, left); got != tt.yields {
				t.Errorf("yields: %t", got)
			}
			var has []string
			if _, ok, _ := unstructured.NestedInt64(doc.Object, "spec", "replicas"); ok {
				has = append(has, "replicas")
			}
			for _, key := range []string{"a.b/c", "d"} {
				if _, ok := doc.GetAnnotations()[key]; ok {
					has = append(has, key)
				}
			}
			if strings.Join(has, " ") != strings.Join(tt.left, " ") {
				t.Errorf("left: %v", has)
			}
		})
	}
}

// An API server does not know who scaled a custom resource to 0: the scale subresource
// records no manager for the number 0. So a field that stays is written as it is.
func TestAFieldThatStaysIsWrittenAsItIs(t *testing.T) {
	left := []Left{{Keeps: [][]string{{"spec", "replicas"}}}}
	for _, tt := range []struct {
		name string
		has  any
		want int64
	}{{"somebody has set it to nothing", int64(0), 0}, {"somebody has set it", int64(5), 5}, {"it is not there", nil, 3}} {
		t.Run(tt.name, func(t *testing.T) {
			doc, have := deployment(), deployment()
			if err := unstructured.SetNestedField(have.Object, tt.has, "spec", "replicas"); err != nil {
				t.Fatal(err)
			}
			if err := keep(doc, have, left); err != nil {
				t.Fatal(err)
			}
			if got, _, _ := unstructured.NestedInt64(doc.Object, "spec", "replicas"); got != tt.want {
				t.Errorf("%d replicas", got)
			}
		})
	}
}
