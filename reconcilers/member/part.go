package member

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// SandboxOf returns the name of a member's sandbox; that of the member if no sandbox made it.
func SandboxOf(m crdv1.Member) string {
	return cmp.Or(m.GetAnnotations()[crdv1.AnnotationSandboxName], m.GetName())
}

// PartMeta returns the metadata of an object with this name that is created for a member, which label names.
func PartMeta(m crdv1.Member, label, name string) metav1.ObjectMeta {
	meta := metav1.ObjectMeta{
		Name:            name,
		Namespace:       m.GetNamespace(),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(m, crdv1.GroupVersion().WithKind(m.MemberKind()))},
		Labels:          map[string]string{label: crdv1.LabelValue(m.GetName())},
		Annotations:     map[string]string{crdv1.AnnotationSandboxName: SandboxOf(m)},
	}
	if s := m.GetLabels()[crdv1.LabelSandbox]; s != "" {
		meta.Labels[crdv1.LabelSandbox] = s
	}
	if key := m.GetAnnotations()[crdv1.AnnotationRoutingKey]; key != "" {
		meta.Annotations[crdv1.AnnotationRoutingKey] = key
	}
	return meta
}
