package record

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
)

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
		if ofOperator(owner) {
			out = append(out, operation{Op: "remove", Path: "/metadata/ownerReferences/" + strconv.Itoa(i)})
		}
	}
	return out, nil
}

// ofOperator reports whether an owner is of a kind of the operator, in any version.
func ofOperator(o metav1.OwnerReference) bool {
	return strings.HasPrefix(o.APIVersion, crdv1.Group+"/")
}
