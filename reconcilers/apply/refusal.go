package apply

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// Reasons of refusals, as they stand in conditions.
const (
	// ReasonNameTaken: an object of that name exists that we did not make.
	ReasonNameTaken = "NameTaken"
	// ReasonFieldConflict: somebody else owns a field that we want to set.
	ReasonFieldConflict = "FieldConflict"
	// ReasonRejected: the API server finds the object not valid.
	ReasonRejected = "Rejected"
	// ReasonForbidden: the operator has not the right to write it.
	ReasonForbidden = "Forbidden"
	// ReasonNamespaceNotFound: its namespace does not exist.
	ReasonNamespaceNotFound = "NamespaceNotFound"
)

// Refusal is an object that was not written, and trying again would not help
// until somebody changes something. Test with errors.As.
type Refusal struct {
	// Reason is one CamelCase word for programs.
	Reason string
	// Message says what is wrong, with which object, and what to do.
	Message string
}

// Error gives the message.
func (r *Refusal) Error() string { return r.Message }

// taken is the refusal of an object that somebody else made.
func taken(o client.Object) *Refusal {
	return &Refusal{ReasonNameTaken, fmt.Sprintf(
		"%s exists and was not made by this object, so it is left alone: delete or rename it", Describe(o))}
}

// refusalOf reads the answer of the API server; it gives err itself when trying
// again may help.
func refusalOf(o client.Object, err error) error {
	switch {
	case isFieldConflict(err):
		return &Refusal{ReasonFieldConflict, fmt.Sprintf(
			"%s has fields that somebody else has set (%v): undo that change, or ask for it in the sandbox", Describe(o), err)}
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err):
		return &Refusal{ReasonRejected, fmt.Sprintf("the API server does not take %s: %v", Describe(o), err)}
	case apierrors.IsForbidden(err):
		return &Refusal{ReasonForbidden, fmt.Sprintf("%s may not be written: %v", Describe(o), err)}
	case apierrors.IsNotFound(err):
		return &Refusal{ReasonNamespaceNotFound, fmt.Sprintf(
			"%s cannot be made: namespace %q does not exist", Describe(o), o.GetNamespace())}
	default:
		return err
	}
}

// isFieldConflict tells a conflict of field managers from one of versions.
func isFieldConflict(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsConflict(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Type == metav1.CauseTypeFieldManagerConflict {
			return true
		}
	}
	return false
}

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

// FieldOwner is under which name we write.
const FieldOwner = client.FieldOwner(crdv1.FieldManager)
