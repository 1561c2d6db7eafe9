package apply

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
)

// AnnotationDesired, on an object that the operator wrote, is a hash of its intended content.
const AnnotationDesired = "signadot.com/desired"

// document returns an object as it is sent to the API server: without status and empty fields, and with
// the hash of the rest. The annotation crdv1.AnnotationOnBehalf is not part of the hash: it records the
// origin of the object, which is kept as long as the object.
func document(o runtime.Object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("write object: %w", err)
	}
	if _, ok := o.(runtime.Unstructured); ok {
		content = runtime.DeepCopyJSON(content) // It is the object itself.
	}
	delete(content, "status")
	prune(content)
	u := &unstructured.Unstructured{Object: content}
	annotations := lists.Merged(u.GetAnnotations())
	written, err := json.Marshal(withoutBehalf(u).Object)
	if err != nil {
		return nil, fmt.Errorf("write object: %w", err)
	}
	sum := sha256.Sum256(written)
	annotations[AnnotationDesired] = hex.EncodeToString(sum[:8])
	u.SetAnnotations(annotations)
	return u, nil
}

// withoutBehalf returns a document without crdv1.AnnotationOnBehalf. It shares everything but its
// metadata.
func withoutBehalf(u *unstructured.Unstructured) *unstructured.Unstructured {
	annotations := u.GetAnnotations() // A copy.
	if _, ok := annotations[crdv1.AnnotationOnBehalf]; !ok {
		return u
	}
	delete(annotations, crdv1.AnnotationOnBehalf)
	out := &unstructured.Unstructured{Object: maps.Clone(u.Object)}
	if metadata, ok := u.Object["metadata"].(map[string]any); ok {
		out.Object["metadata"] = maps.Clone(metadata)
	}
	out.SetAnnotations(annotations)
	return out
}

// patches are fields with users' patches, in which null means the removal of a field.
var patches = []string{"strategic", "merge", "json"}

// prune removes nulls, which server-side apply would take as wishes; in patches they are.
func prune(value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, item := range v {
			if item == nil {
				delete(v, key)
				continue
			}
			if !slices.Contains(patches, key) {
				prune(item)
			}
		}
	case []any:
		for _, item := range v {
			prune(item)
		}
	}
}

// InLine reports whether have is want already, but for fields that are left to others. want
// is as for Apply, and have a copy of the object from the cache.
func InLine(want, have client.Object, left ...Left) bool {
	doc, err := document(want)
	if err != nil {
		return false
	}
	for _, path := range paths(left) {
		unstructured.RemoveNestedField(doc.Object, path...)
	}
	ok, err := inLine(doc, have)
	return err == nil && ok
}

// inLine reports whether have has all fields of want, except crdv1.AnnotationOnBehalf.
func inLine(want *unstructured.Unstructured, have runtime.Object) (bool, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(have)
	if err != nil {
		return false, fmt.Errorf("read object: %w", err)
	}
	wanted := maps.Clone(withoutBehalf(want).Object)
	// Copies from a cache have lost their kind; it is known from where they were.
	delete(wanted, "kind")
	delete(wanted, "apiVersion")
	return contains(content, wanted), nil
}

// contains reports whether have is want with, perhaps, more fields. Lists have to
// be of one length.
func contains(have, want any) bool {
	switch w := want.(type) {
	case map[string]any:
		h, ok := have.(map[string]any)
		if !ok {
			return have == nil && len(w) == 0
		}
		for key, item := range w {
			if !contains(h[key], item) {
				return false
			}
		}
		return true
	case []any:
		h, ok := have.([]any)
		if !ok {
			return have == nil && len(w) == 0
		}
		return slices.EqualFunc(h, w, contains)
	default:
		return same(have, want)
	}
}

// same compares two scalars; numbers by value, whatever type holds them.
func same(a, b any) bool {
	x, isX := number(a)
	if y, isY := number(b); isX && isY {
		return x == y
	}
	return reflect.DeepEqual(a, b)
}

// number returns a number as float64.
func number(v any) (float64, bool) {
	switch n := v.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	case int32:
		return float64(n), true
	case int:
		return float64(n), true
	}
	return 0, false
}
