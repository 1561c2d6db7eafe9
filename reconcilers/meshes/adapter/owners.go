package adapter

import (
	"encoding/json"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/meshes/istio"
)

// ours reports whether an entry of managedFields says what we have written.
func ours(e metav1.ManagedFieldsEntry) bool {
	return e.Manager == crdv1.FieldManager && e.Operation == metav1.ManagedFieldsOperationUpdate && e.Subresource == ""
}

// ownsSpec reports whether an entry of managedFields says that some of the spec is ours.
func ownsSpec(e metav1.ManagedFieldsEntry) bool {
	var fields map[string]any
	if !ours(e) || e.FieldsV1 == nil || json.Unmarshal(e.FieldsV1.Raw, &fields) != nil {
		return false
	}
	_, has := fields["f:spec"]
	return has
}

// givenUp returns managedFields in which everybody has again the fields that they had before we
// wrote routes, and we have our annotation alone: who owns spec.http by applying it would meet
// a conflict with us.
func givenUp(before, after []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	out := slices.DeleteFunc(slices.Clone(before), ours)
	for _, e := range after {
		if ours(e) {
			if e, left := without(e, "f:spec"); left {
				out = append(out, e)
			}
		}
	}
	return out
}

// kubectlApply is the field manager of kubectl apply on the client's side.
const kubectlApply = "kubectl-client-side-apply"

// passable returns managedFields by which the owner may go over from kubectl apply to server-side
// apply. The API server lets him while spec.http is what he applied last, which it is but for
// our routes; so kubectl apply does not hold the field meanwhile. It knows its own by the
// annotation in which it notes all that it applied.
func passable(o *unstructured.Unstructured) []metav1.ManagedFieldsEntry {
	fields := o.GetManagedFields()
	applied := &unstructured.Unstructured{}
	if note := o.GetAnnotations()[corev1.LastAppliedConfigAnnotation]; note == "" || applied.UnmarshalJSON([]byte(note)) != nil {
		return fields
	}
	if bare := istio.Strip(o); reflect.DeepEqual(routesOf(bare), routesOf(o)) || !reflect.DeepEqual(routesOf(bare), routesOf(applied)) {
		return fields
	}
	var out []metav1.ManagedFieldsEntry
	for _, e := range fields {
		if e.Manager == kubectlApply && e.Operation == metav1.ManagedFieldsOperationUpdate {
			var left bool
			if e, left = without(e, "f:spec", "f:http"); !left {
				continue
			}
		}
		out = append(out, e)
	}
	return out
}

// without returns an entry without a field; left is false when it has no other.
func without(e metav1.ManagedFieldsEntry, path ...string) (out metav1.ManagedFieldsEntry, left bool) {
	var fields map[string]any
	if e.FieldsV1 == nil || json.Unmarshal(e.FieldsV1.Raw, &fields) != nil {
		return e, true
	}
	if _, has, _ := unstructured.NestedFieldNoCopy(fields, path...); !has {
		return e, true
	}
	unstructured.RemoveNestedField(fields, path...)
	text, err := json.Marshal(fields)
	if err != nil {
		return e, true
	}
	e.FieldsV1 = &metav1.FieldsV1{Raw: text}
	return e, len(fields) > 0
}
