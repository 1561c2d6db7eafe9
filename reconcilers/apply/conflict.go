package apply

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"switchyard.dev/reconcilers/condition"
)

// replicasField is the number of pods of a workload, as the API server names it.
const replicasField = ".spec.replicas"

// mostConflicts is how many fields a message names.
const mostConflicts = 3

// conflictsOf returns the fields in the API server's error that other field managers have set to other
// values, each with its manager.
func conflictsOf(err error) []metav1.StatusCause {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(status.Status().Details.Causes), func(c metav1.StatusCause) bool { return !isFieldConflict(c) })
}

// conflictMessage returns a message with the fields that other managers have set, those managers, and
// the command that resolves the conflict: it sets the wanted number of replicas, or deletes the object,
// which is then re-created at once.
func conflictMessage(o *unstructured.Unstructured, conflicts []metav1.StatusCause) string {
	var fields []string
	for _, c := range conflicts {
		fields = append(fields, fmt.Sprintf("%s (by %s)", c.Field, strings.TrimPrefix(c.Message, "conflict with ")))
	}
	command := "kubectl delete"
	n, sized, _ := unstructured.NestedInt64(o.Object, strings.Split(replicasField, ".")[1:]...)
	if sized && !slices.ContainsFunc(conflicts, func(c metav1.StatusCause) bool { return c.Field != replicasField }) {
		command = fmt.Sprintf("kubectl scale --replicas=%d", n)
	}
	return fmt.Sprintf("%s has fields that differ from what the sandbox asks for: %s. Ask for them in the sandbox, or undo them: %s %s",
		Describe(o), condition.List(fields, mostConflicts, ", "), command, Argument(o.GroupVersionKind(), o))
}

// Argument returns how an object of a kind is named to kubectl, namespace included.
func Argument(gvk schema.GroupVersionKind, o metav1.Object) string {
	return strings.TrimSpace(inNamespace(o.GetNamespace()) + " " + resourceArgument(gvk, o))
}

// resourceArgument returns how an object of a kind is named to kubectl within its namespace.
func resourceArgument(gvk schema.GroupVersionKind, o metav1.Object) string {
	return strings.ToLower(gvk.GroupKind().String()) + "/" + o.GetName() // Such as deployment.apps.
}
