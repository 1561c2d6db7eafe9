package apply

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/condition"
)

// Reasons of refusals, as they stand in conditions.
const (
	// ReasonNameTaken: an object of that name exists that the operator did not create and does not adopt.
	ReasonNameTaken = "NameTaken"
	// ReasonFieldConflict: another manager owns a field that the operator sets.
	ReasonFieldConflict = "FieldConflict"
	// ReasonRejected: the API server finds the object not valid.
	ReasonRejected = "Rejected"
	// ReasonRefused: a policy of the cluster, an admission webhook or a ValidatingAdmissionPolicy,
	// refuses the object. It is valid.
	ReasonRefused = "Refused"
	// ReasonForbidden: the operator has not the right to write it.
	ReasonForbidden = "Forbidden"
	// ReasonNamespaceNotFound: its namespace does not exist.
	ReasonNamespaceNotFound = "NamespaceNotFound"
	// ReasonNamespaceTerminating: its namespace is being deleted.
	ReasonNamespaceTerminating = "NamespaceTerminating"
)

// ReasonQuota: a ResourceQuota does not allow the object, or requires settings that it lacks.
const ReasonQuota = "QuotaExceeded"

// Refusal is an object that was not written; a retry does not help until something changes. Test with
// errors.As.
type Refusal struct {
	// Reason is one CamelCase word for programs.
	Reason string
	// Message describes the problem, the object and the remedy.
	Message string
	// InTheWay are the objects that have the name; for ReasonNameTaken.
	InTheWay []InTheWay
}

// Error returns the message.
func (r *Refusal) Error() string { return r.Message }

// refusalOf reads the answer of the API server; it returns an error of another
// kind when trying again may help.
func refusalOf(o *unstructured.Unstructured, err error) error {
	switch {
	case hasCause(err, isOtherObject):
		// The cached copy is of a deleted object.
		return Overtaken(o.GetKind(), o.GetName(), "it was replaced by another object of the same name")
	case apierrors.IsConflict(err) && hasCause(err, isFieldConflict):
		return refusal(ReasonFieldConflict, "%s", conflictMessage(o, conflictsOf(err)))
	case isPolicy(err):
		return refusal(ReasonRefused, "a policy of the cluster refuses %s (retried every %s): %v", Describe(o), RefusedAgain, err)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err), isUntyped(err):
		return refusal(ReasonRejected, "the API server rejects %s: %v", Describe(o), err)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return refusal(ReasonNamespaceTerminating, "%s cannot be made: namespace %q is being deleted", Describe(o), o.GetNamespace())
	case apierrors.IsForbidden(err):
		return forbidden(o, err)
	case apierrors.IsNotFound(err):
		return refusal(ReasonNamespaceNotFound, "%s cannot be made: namespace %q does not exist", Describe(o), o.GetNamespace())
	default:
		return err
	}
}

// refusal returns a Refusal with a formatted message.
func refusal(reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// RefusalOf returns the refusal of an object, which the API server has answered with err; nil
// when trying again may help.
func RefusalOf(o client.Object, err error) *Refusal {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(o.GetObjectKind().GroupVersionKind())
	u.SetNamespace(o.GetNamespace())
	u.SetName(o.GetName())
	if r := new(Refusal); errors.As(refusalOf(u, err), &r) {
		return r
	}
	return nil
}

// isPolicy reports whether an admission webhook or a ValidatingAdmissionPolicy denied a request,
// whatever code it chose for that.
func isPolicy(err error) bool {
	text := err.Error()
	return strings.Contains(text, "admission webhook ") && strings.Contains(text, " denied the request") ||
		strings.Contains(text, "ValidatingAdmissionPolicy ") && strings.Contains(text, " denied request")
}

// isUntyped reports whether server-side apply cannot make sense of the object,
// which the API server calls an internal error.
func isUntyped(err error) bool {
	return strings.Contains(err.Error(), "failed to create typed patch object")
}

// hasCause reports whether an error of the API server has such a cause.
func hasCause(err error, is func(metav1.StatusCause) bool) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Details != nil && slices.ContainsFunc(status.Status().Details.Causes, is)
}

// isFieldConflict reports whether a cause is a conflict of field managers, and not of versions.
func isFieldConflict(c metav1.StatusCause) bool {
	return c.Type == metav1.CauseTypeFieldManagerConflict
}

// isOtherObject reports whether a cause is a UID other than that of the object with this name.
func isOtherObject(c metav1.StatusCause) bool { return c.Field == "metadata.uid" }

// Describe names an object for messages: kind, and namespace/name.
func Describe(o client.Object) string {
	name := o.GetName()
	if o.GetNamespace() != "" {
		name = o.GetNamespace() + "/" + name
	}
	if kind := o.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return kind + " " + name
	}
	return name
}

// FieldOwner is the operator's field manager.
const FieldOwner = client.FieldOwner(crdv1.FieldManager)

// forbidden returns the refusal of an object by an authorizer, or by a plugin that limits objects.
func forbidden(o *unstructured.Unstructured, err error) *Refusal {
	text := err.Error()
	switch {
	case strings.Contains(text, "exceeded quota: "), strings.Contains(text, "failed quota: "):
		return refusal(ReasonQuota, "a ResourceQuota of namespace %s refuses %s (retried every %s): %v", o.GetNamespace(), Describe(o), RefusedAgain, err)
	case strings.Contains(text, " cannot "): // of a user
		return refusal(ReasonForbidden, "%s may not be written: %v", Describe(o), err)
	}
	return refusal(ReasonForbidden, "the API server refuses %s (retried every %s): %v", Describe(o), RefusedAgain, err)
}

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

// Left names fields of an object that are left to others, by their paths.
type Left struct {
	// Keeps are fields that are written only on creation; later they keep their values, whichever
	// manager has set them.
	Keeps [][]string
	// Yields are fields that are written until another field manager has set them to another value.
	Yields [][]string
}

// paths returns all fields that are left to others.
func paths(left []Left) [][]string {
	var out [][]string
	for _, l := range left {
		out = append(append(out, l.Keeps...), l.Yields...)
	}
	return out
}

// keep writes the values into the document that have has at fields that stay.
func keep(doc *unstructured.Unstructured, have runtime.Object, left []Left) error {
	if !slices.ContainsFunc(left, func(l Left) bool { return len(l.Keeps) > 0 }) {
		return nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(have)
	if err != nil {
		return fmt.Errorf("read object: %w", err)
	}
	for _, l := range left {
		for _, path := range l.Keeps {
			value, found, err := unstructured.NestedFieldCopy(content, path...)
			if err != nil || !found || value == nil {
				continue
			}
			if err := unstructured.SetNestedField(doc.Object, value, path...); err != nil {
				return fmt.Errorf("keep .%s: %w", strings.Join(path, "."), err)
			}
		}
	}
	return nil
}

// yield removes from the document the fields that the error reports as conflicts and that are left to
// others, and reports whether there was one.
func yield(doc *unstructured.Unstructured, err error, left []Left) bool {
	all, yielded := paths(left), false
	for _, c := range conflictsOf(err) {
		at := slices.IndexFunc(all, func(path []string) bool { return "."+strings.Join(path, ".") == c.Field })
		if at >= 0 {
			unstructured.RemoveNestedField(doc.Object, all[at]...)
			yielded = true
		}
	}
	return yielded
}
