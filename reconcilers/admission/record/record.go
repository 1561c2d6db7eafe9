// Package record answers the mutating webhook that records the author of a specification
// in crdv1.AnnotationAuthor. The validating webhook (package admission) refuses a change
// without a recorded author, and an admission policy of the chart refuses every other
// change of the annotation.
//
// The author is recorded on every kind that the validating webhook reviews: users can write all
// of them, and each has one rule. Objects that only the operator has written have no author.
package record

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/admission"
)

// Path is the path of the webhook.
const Path = "/mutate-signadot-com-v1"

// Recorder answers AdmissionReviews. It is safe for use by several goroutines.
type Recorder struct {
	// Exempt are users with writes that keep the annotation: the operator's own service accounts, by
	// their full names.
	Exempt []string
	// Delegates are accounts that write on behalf of other users.
	Delegates admission.Delegates
}

// Review answers one AdmissionReview.
type Review = func(context.Context, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse

// Reviews returns the reviews of the webhook that asks about authors and of the one that
// records them, by path, or an error in the configuration.
func Reviews(c admission.Config) (map[string]Review, error) {
	r, err := admission.New(c)
	if err != nil {
		return nil, err
	}
	return map[string]Review{admission.Path: r.Review, Path: Recorder{Exempt: c.Exempt, Delegates: c.Delegates}.Review}, nil
}

// operation is one of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// Review answers one request: it records the author if the request changes what makes its sender
// the author (admission.Change), and removes marks of the operator from objects that a user restores. It refuses a delegate that names a user that it may not name.
func (r Recorder) Review(_ context.Context, req *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	allowed := &admissionv1.AdmissionResponse{Allowed: true}
	if slices.Contains(r.Exempt, req.UserInfo.Username) || !admission.ChangeOf(req).Author {
		return allowed
	}
	after, err := annotations(req.Object.Raw)
	if err != nil {
		return admission.Refused(http.StatusBadRequest, metav1.StatusReasonBadRequest, fmt.Sprintf("the object cannot be read: %v", err))
	}
	var before map[string]string
	if req.Operation == admissionv1.Update {
		before, _ = annotations(req.OldObject.Raw) // An unreadable one names no author.
	}
	author, _, err := r.Delegates.AuthorOf(req.UserInfo, after, before)
	if err != nil {
		return admission.Refused(http.StatusForbidden, metav1.StatusReasonForbidden, err.Error())
	}
	operations, err := withoutMarks(req)
	if err != nil {
		return admission.Refused(http.StatusBadRequest, metav1.StatusReasonBadRequest, fmt.Sprintf("the object cannot be read: %v", err))
	}
	if len(operations) > 0 {
		allowed.Warnings = []string{unmarked}
	}
	if after[crdv1.AnnotationAuthor] != author.String() {
		operations = append(operations, written(after, author))
	}
	if len(operations) == 0 {
		return allowed
	}
	patch, err := json.Marshal(operations)
	if err != nil {
		return admission.Refused(http.StatusInternalServerError, metav1.StatusReasonInternalError, fmt.Sprintf("the author cannot be recorded: %v", err))
	}
	allowed.Patch, allowed.PatchType = patch, new(admissionv1.PatchTypeJSONPatch)
	return allowed
}

// written returns the operation that records an author beside these annotations.
func written(beside map[string]string, author crdv1.Author) operation {
	if beside == nil {
		return operation{"add", "/metadata/annotations", map[string]string{crdv1.AnnotationAuthor: author.String()}}
	}
	// Of a JSON pointer, "/" is written "~1".
	return operation{"add", "/metadata/annotations/switchyard.dev~1author", author.String()}
}

// annotations reads those of an object.
func annotations(raw []byte) (map[string]string, error) {
	var o struct {
		Metadata struct{ Annotations map[string]string }
	}
	err := json.Unmarshal(raw, &o)
	return o.Metadata.Annotations, err
}

// restorable are the kinds of the operator's objects that it adopts after a backup tool has created
// them again (decision record 54).
var restorable = []string{crdv1.KindForkedWorkload, crdv1.KindRoutingConfig}

// unmarked is the warning for a user of an object that lost marks of the operator.
const unmarked = "the annotation " + crdv1.AnnotationOnBehalf + " and owners of signadot.com are written by the operator only: they were removed from the new object"

// withoutMarks returns the operations that remove the operator's marks from an object that a user
// creates: the cause and owners of the operator's kinds. A backup tool sends them as it found them.
// The object then counts as the user's own; without this it is denied (policy signadot-marks), as
// are marks in updates and on other kinds, which the operator does not adopt.
func withoutMarks(req *admissionv1.AdmissionRequest) ([]operation, error) {
	if req.Operation != admissionv1.Create || !slices.Contains(restorable, req.Kind.Kind) {
		return nil, nil
	}
	var o struct {
		Metadata struct {
			Annotations     map[string]string
			OwnerReferences []metav1.OwnerReference
		}
	}
	if err := json.Unmarshal(req.Object.Raw, &o); err != nil {
		return nil, err
	}
	var out []operation
	if _, has := o.Metadata.Annotations[crdv1.AnnotationOnBehalf]; has {
		out = append(out, operation{Op: "remove", Path: "/metadata/annotations/signadot.com~1on-behalf-of"})
	}
	for i, owner := range slices.Backward(o.Metadata.OwnerReferences) { // The last first: places stay as they are.
		if strings.HasPrefix(owner.APIVersion, crdv1.Group+"/") {
			out = append(out, operation{Op: "remove", Path: "/metadata/ownerReferences/" + strconv.Itoa(i)})
		}
	}
	return out, nil
}
