package fork

import (
	"fmt"

	"switchyard.dev/protos/problems"
)

// Reasons of problems, as used in conditions.
const (
	// ReasonInvalidPatch: a patch is not written as a patch has to be.
	ReasonInvalidPatch = "InvalidPatch"
	// ReasonInvalidTemplate: a variable in a patch is not known or not written as
	// one has to be.
	ReasonInvalidTemplate = "InvalidTemplate"
	// ReasonSiblingWithoutService: a patch names the Service of another fork, which has none.
	ReasonSiblingWithoutService = "SiblingWithoutService"
	// ReasonPatchNotAllowed: a patch gives the fork more power than the baseline
	// has, and the operator's configuration does not allow it.
	ReasonPatchNotAllowed = "PatchNotAllowed"
	// ReasonPatchFailed: a patch does not apply to this baseline.
	ReasonPatchFailed = "PatchFailed"
	// ReasonOutputNotVariable: a variable refers to an output of a resource that no environment variable
	// can contain.
	ReasonOutputNotVariable = "OutputNotVariable"
	// ReasonPortConflict: two patches give the same container port.
	ReasonPortConflict = "PortConflict"
	// ReasonInvalidPreservedLabels: an expression for labels cannot be read.
	ReasonInvalidPreservedLabels = "InvalidPreservedLabels"
	// ReasonLabelsMatchBaseline: the fork would be taken for the baseline, by a
	// Service, a PodDisruptionBudget or the baseline itself.
	ReasonLabelsMatchBaseline = "LabelsMatchBaseline"
)

// Problem is a problem with the request of a user.
type Problem = problems.Problem

// problem returns a Problem; the message is formatted with fmt.Sprintf.
func problem(reason, format string, args ...any) *Problem {
	return &Problem{Reason: reason, Message: fmt.Sprintf(format, args...)}
}
