package admission

import (
	"bytes"
	"encoding/json"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// Change has the relevant changes of a request. The zero value requires no rights: the request changes
// a status, labels, finalizers or other annotations, or deletes. The matchConditions of the webhooks
// are equivalent.
type Change struct {
	// Spec reports that the request creates an object, or changes its specification or an
	// annotation of crdv1.SpecificationAnnotations.
	Spec bool
	// Author reports that the sender becomes the author: the request creates an object, or changes
	// its specification or an annotation of crdv1.AuthorAnnotations.
	Author bool
	// Owners reports that it adds an owner to an object that exists.
	Owners bool
}

// ChangeOf returns the relevant changes of a request. An unreadable one counts as a change of the
// specification.
func ChangeOf(req *admissionv1.AdmissionRequest) Change {
	switch {
	case req.SubResource != "":
		return Change{}
	case req.Operation == admissionv1.Create:
		return Change{Spec: true, Author: true}
	case req.Operation != admissionv1.Update:
		return Change{}
	}
	var before, after struct {
		Metadata struct {
			Annotations     map[string]string
			OwnerReferences []metav1.OwnerReference
		}
		Spec json.RawMessage
	}
	if json.Unmarshal(req.OldObject.Raw, &before) != nil || json.Unmarshal(req.Object.Raw, &after) != nil {
		return Change{Spec: true, Author: true}
	}
	had := func(o metav1.OwnerReference) bool {
		return slices.ContainsFunc(before.Metadata.OwnerReferences, func(b metav1.OwnerReference) bool { return b.UID == o.UID })
	}
	added := func(o metav1.OwnerReference) bool { return !had(o) }
	differs := func(a string) bool { return before.Metadata.Annotations[a] != after.Metadata.Annotations[a] }
	spec := !bytes.Equal(before.Spec, after.Spec)
	return Change{
		Spec:   spec || slices.ContainsFunc(crdv1.SpecificationAnnotations(), differs),
		Author: spec || slices.ContainsFunc(crdv1.AuthorAnnotations(), differs),
		Owners: slices.ContainsFunc(after.Metadata.OwnerReferences, added),
	}
}
