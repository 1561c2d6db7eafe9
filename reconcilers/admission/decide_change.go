package admission

import (
	"bytes"
	"encoding/json"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// Annotations returns the annotations that count as specification: the operator or a
// workstation acts on them, so a change of one takes the rights of the whole object. The chart has
// the same list (operator.authorsAnnotations).
func Annotations() []string {
	return append(AuthorAnnotations(),
		crdv1.AnnotationTTL, crdv1.AnnotationTTLFrom, crdv1.AnnotationUpdatedAt,
		crdv1.AnnotationRetry, crdv1.AnnotationGiveUp, crdv1.AnnotationMachine,
	)
}

// AuthorAnnotations returns those of Annotations that decide what runs, or which addresses a
// workstation opens: the user who changes one becomes the author. The others decide when, or on which
// workstation, and leave the author as it is: plain "connect" opens the addresses of an author without
// a question. The chart has the same list (operator.authorAnnotations).
func AuthorAnnotations() []string {
	return []string{
		crdv1.AnnotationSandboxName, crdv1.AnnotationRoutingKey, // Templates in patches can use them.
		crdv1.AnnotationLocal,
		crdv1.AnnotationSpecification, // Other users can apply what "sandbox get" prints.
	}
}

// Change has the relevant changes of a request. The zero value requires no rights: the request changes
// a status, labels, finalizers or other annotations, or deletes. The matchConditions of the webhooks
// are equivalent.
type Change struct {
	// Spec reports that the request creates an object, or changes its specification or an
	// annotation of Annotations.
	Spec bool
	// Author reports that the sender becomes the author: the request creates an object, or changes
	// its specification or an annotation of AuthorAnnotations.
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
		Spec:   spec || slices.ContainsFunc(Annotations(), differs),
		Author: spec || slices.ContainsFunc(AuthorAnnotations(), differs),
		Owners: slices.ContainsFunc(after.Metadata.OwnerReferences, added),
	}
}
