package resource

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// passed are the annotations of a Resource that are copied to the object that runs its units.
var passed = []string{crdv1.AnnotationRetry, crdv1.AnnotationGiveUp, crdv1.AnnotationSandboxName, crdv1.AnnotationRoutingKey, crdv1.AnnotationOnBehalf}

// Methods returns the object that runs the units of a Resource. It has the name of the
// Resource, and so has its IO context.
func Methods(r *crdv1.Resource) *crdv1.SignadotObjectLifecycleMethods {
	o := &crdv1.SignadotObjectLifecycleMethods{
		TypeMeta:   metav1.TypeMeta{APIVersion: crdv1.APIVersion, Kind: crdv1.KindLifecycleMethods},
		ObjectMeta: partOf(r),
		Spec:       crdv1.SignadotObjectLifecycleMethodsSpec{OLM: *r.Spec.OLM.DeepCopy(), IOContextName: ContextName(r)},
	}
	for _, name := range passed {
		if value, ok := r.Annotations[name]; ok {
			o.Annotations[name] = value
		}
	}
	// The finalizer is set at creation, which saves a second write.
	o.Finalizers = []string{crdv1.Finalizer}
	return o
}

// ContextName names the IO context of a Resource.
func ContextName(r *crdv1.Resource) string { return crdv1.ObjectName(maxContextName, r.Name) }

// maxContextName is the maximum length of the name of an IO context.
const maxContextName = 60

// partOf returns the metadata of an object created for a Resource.
func partOf(r *crdv1.Resource) metav1.ObjectMeta {
	labels := map[string]string{crdv1.LabelResource: crdv1.LabelValue(r.Name)}
	if sandbox, ok := r.Labels[crdv1.LabelSandbox]; ok {
		labels[crdv1.LabelSandbox] = sandbox
	}
	return metav1.ObjectMeta{
		Name: r.Name, Labels: labels, Annotations: map[string]string{},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(r, crdv1.GroupVersion().WithKind(crdv1.KindResource))},
	}
}

// maxSecret is the maximum size of all values of a Secret, in bytes.
const maxSecret = corev1.MaxSecretSize

// Fits returns an error unless values fit into a Secret.
func Fits(values map[string][]byte) error {
	size := 0
	for _, v := range values {
		size += len(v)
	}
	if size > maxSecret {
		return fmt.Errorf("the outputs have %d bytes together, and a Secret takes %d: let the steps of the plugin give less", size, maxSecret)
	}
	return nil
}

// Output returns the Secret with the outputs for a namespace, which is never changed.
func Output(r *crdv1.Resource, name, namespace string, values map[string][]byte) *corev1.Secret {
	never := true
	s := &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: partOf(r),
		Type: corev1.SecretTypeOpaque, Immutable: &never, Data: maps.Clone(values),
	}
	s.Name, s.Namespace = name, namespace
	return s
}
