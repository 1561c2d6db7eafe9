package v1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Condition types that nearly every kind has.
const (
	// ConditionReady: the object does all that it is asked to do. Its reason and
	// message are those of the first thing that stands in the way.
	ConditionReady = "Ready"
	// ConditionAccepted: the spec is valid. When it is False, the message names the field to
	// change.
	ConditionAccepted = "Accepted"
	// ConditionCaveats is True while users should know of an exception, also of an object
	// that is not Ready; its message has a line for each. Without caveats the condition is absent.
	ConditionCaveats = "Caveats"
)

// ReasonPending is the reason of a condition that nothing is known about yet.
const ReasonPending = "Pending"

// ReasonServiceSilent is the reason of a condition about a fork with ready pods and a Service
// that does not answer yet: a stage that every fork passes.
const ReasonServiceSilent = "ServiceSilent"

// Reasons that more than one controller knows.
const (
	// ReasonDeleting: the object is being deleted, so that none of it can be relied on.
	ReasonDeleting = "Deleting"
	// ReasonWaitsFor: the fork must not be started yet; see AnnotationWaitsFor.
	ReasonWaitsFor = "WaitsFor"
	// ReasonScaledToZero: the fork is asked to have no pods.
	ReasonScaledToZero = "ScaledToZero"
)

// Conditioned is an object with conditions: every kind of this package.
//
// +kubebuilder:object:generate=false
type Conditioned interface {
	metav1.Object
	// StatusConditions returns the place of the object's conditions, never nil.
	StatusConditions() *[]StatusCondition
	// ConditionTypes returns the condition types that are always all present.
	ConditionTypes() []string
}

// FindCondition returns the condition of a type, or nil. The result is part of conds, not a
// copy.
func FindCondition(conds []StatusCondition, conditionType string) *StatusCondition {
	i := slices.IndexFunc(conds, func(c StatusCondition) bool { return c.Type == conditionType })
	if i < 0 {
		return nil
	}
	return &conds[i]
}

// IsTrue reports whether the condition of a type is there, is True, and was found
// out about the given generation of the object or a newer one.
func IsTrue(conds []StatusCondition, conditionType string, generation int64) bool {
	c := FindCondition(conds, conditionType)
	return c != nil && c.Status == string(metav1.ConditionTrue) && c.ObservedGeneration >= generation
}

// SetCondition replaces the condition of the type of c by c, or adds it, and reports whether
// anything changed. c.LastTransitionTime is the current time; it is used only when the status
// differs from the previous one.
func SetCondition(conds *[]StatusCondition, c metav1.Condition) bool {
	want := fromMeta(c)
	have := FindCondition(*conds, c.Type)
	if have == nil {
		*conds = append(*conds, want)
		return true
	}
	if have.Status == want.Status && !have.LastTransitionTime.IsZero() {
		want.LastTransitionTime = have.LastTransitionTime
	}
	changed := !sameCondition(*have, want)
	*have = want
	return changed
}

// CompleteConditions returns conds with every one of types present, in the order
// of types; conditions of other types follow in the order they had. A type that
// was absent becomes Unknown, reason Pending, at the given generation, since
// now. conds itself is not changed.
func CompleteConditions(conds []StatusCondition, types []string, generation int64, now metav1.Time) []StatusCondition {
	out := make([]StatusCondition, 0, max(len(conds), len(types)))
	for _, t := range types {
		if have := FindCondition(conds, t); have != nil {
			out = append(out, *have)
			continue
		}
		out = append(out, StatusCondition{
			Type:               t,
			Status:             string(metav1.ConditionUnknown),
			Reason:             ReasonPending,
			Message:            "Not determined yet.",
			ObservedGeneration: generation,
			LastTransitionTime: now,
		})
	}
	for _, c := range conds {
		if !slices.Contains(types, c.Type) {
			out = append(out, c)
		}
	}
	return out
}

// fromMeta returns a condition of Kubernetes' own API in the published form.
func fromMeta(c metav1.Condition) StatusCondition {
	return StatusCondition{
		Type:               c.Type,
		Status:             string(c.Status),
		ObservedGeneration: c.ObservedGeneration,
		LastTransitionTime: c.LastTransitionTime,
		Reason:             c.Reason,
		Message:            c.Message,
	}
}

// sameCondition compares two conditions; times are equal when they are the same
// instant, in whatever zone they were read.
func sameCondition(a, b StatusCondition) bool {
	sameTime := a.LastTransitionTime.Equal(&b.LastTransitionTime)
	a.LastTransitionTime, b.LastTransitionTime = metav1.Time{}, metav1.Time{}
	return sameTime && a == b
}
