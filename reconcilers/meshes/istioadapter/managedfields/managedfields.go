// Package managedfields decides which field managers of a VirtualService own its fields once it has
// routes of sandboxes. These routes have no owner (decision record 0041).
package managedfields

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/meshes/istio"
	"switchyard.dev/reconcilers/meshes/istio/names"
)

// byOperator reports whether an entry of managedFields is of writes by the operator.
func byOperator(e metav1.ManagedFieldsEntry) bool {
	return e.Manager == crdv1.FieldManager && e.Operation == metav1.ManagedFieldsOperationUpdate && e.Subresource == ""
}

// OwnsSpec reports whether by an entry of managedFields the operator owns a part of the spec.
func OwnsSpec(e metav1.ManagedFieldsEntry) bool { return byOperator(e) && Owns(e, "f:spec") }

// GivenUp returns managedFields in which each manager has the fields that it had before the operator
// wrote routes, and the operator only its annotation: otherwise an owner who applies spec.http would
// get a conflict with the operator.
func GivenUp(before, after []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	out := slices.DeleteFunc(slices.Clone(before), byOperator)
	for _, e := range after {
		if byOperator(e) {
			if e, left := without(e, "f:spec"); left {
				out = append(out, e)
			}
		}
	}
	return out
}

// kubectlApply is the field manager of kubectl apply on the client's side.
const kubectlApply = "kubectl-client-side-apply"

// Passable returns managedFields with which the owner can migrate from kubectl apply to server-side
// apply. The API server allows that only while spec.http is as it was applied last, which the
// operator's routes prevent; so kubectl apply does not own the field until Returned restores it.
func Passable(o *unstructured.Unstructured) []metav1.ManagedFieldsEntry {
	fields := o.GetManagedFields()
	if !names.HasRoutes(o) || !asApplied(o) {
		return fields
	}
	var out []metav1.ManagedFieldsEntry
	for _, e := range fields {
		if byKubectlApply(e) {
			var left bool
			if e, left = without(e, "f:spec", "f:http"); !left {
				continue
			}
		}
		out = append(out, e)
	}
	return out
}

// Returned returns managedFields after the operator's routes are removed: the operator owns nothing,
// and kubectl apply owns spec.http again if Passable took that from it.
func Returned(o *unstructured.Unstructured) []metav1.ManagedFieldsEntry {
	fields := slices.DeleteFunc(slices.Clone(o.GetManagedFields()), byOperator)
	at := slices.IndexFunc(fields, byKubectlApply)
	if at < 0 || names.RoutesIn(o.Object) == nil || !asApplied(o) || slices.ContainsFunc(fields, func(e metav1.ManagedFieldsEntry) bool { return Owns(e, "f:spec", "f:http") }) {
		return fields
	}
	fields[at] = with(fields[at], "f:spec", "f:http")
	return fields
}

// asApplied reports whether the routes of a VirtualService, except the operator's, are those of its
// last-applied-configuration annotation.
func asApplied(o *unstructured.Unstructured) bool {
	applied := &unstructured.Unstructured{}
	note := o.GetAnnotations()[corev1.LastAppliedConfigAnnotation]
	return note != "" && applied.UnmarshalJSON([]byte(note)) == nil && names.Equal(names.RoutesIn(istio.Strip(o).Object), names.RoutesIn(applied.Object))
}

// byKubectlApply reports whether an entry of managedFields is of client-side kubectl apply.
func byKubectlApply(e metav1.ManagedFieldsEntry) bool {
	return e.Manager == kubectlApply && e.Operation == metav1.ManagedFieldsOperationUpdate
}

// Owns reports whether an entry has a field.
func Owns(e metav1.ManagedFieldsEntry, path ...string) bool {
	var fields map[string]any
	if e.FieldsV1 == nil || json.Unmarshal(e.FieldsV1.Raw, &fields) != nil {
		return false
	}
	_, has, _ := unstructured.NestedFieldNoCopy(fields, path...)
	return has
}

// with returns an entry with a field.
func with(e metav1.ManagedFieldsEntry, path ...string) metav1.ManagedFieldsEntry {
	var fields map[string]any
	if e.FieldsV1 == nil || json.Unmarshal(e.FieldsV1.Raw, &fields) != nil ||
		unstructured.SetNestedMap(fields, map[string]any{}, path...) != nil {
		return e
	}
	if text, err := json.Marshal(fields); err == nil {
		e.FieldsV1 = &metav1.FieldsV1{Raw: text}
	}
	return e
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
