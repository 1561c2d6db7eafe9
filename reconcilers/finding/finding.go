// Package finding holds what a reconciler found out about an object, until it
// becomes a condition of it. It is pure.
//
// A finding about what a person asked for is never an error: trying again would
// not help. It has a reason for programs and a message for people, which says
// what is wrong, with which object, and what to change.
package finding

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// Finding is what is known about one side of an object.
type Finding struct {
	// Status is True, False or Unknown.
	Status metav1.ConditionStatus
	// Reason is one CamelCase word for programs.
	Reason string
	// Message is for people.
	Message string
}

// Yes is the finding that it is so.
func Yes(reason, message string) Finding {
	return Finding{metav1.ConditionTrue, reason, message}
}

// No is the finding that it is not so, with what to do about it.
func No(reason, message string) Finding {
	return Finding{metav1.ConditionFalse, reason, message}
}

// Open is the finding that it cannot be known now.
func Open(reason, message string) Finding {
	return Finding{metav1.ConditionUnknown, reason, message}
}

// IsYes says whether it is so.
func (f Finding) IsYes() bool { return f.Status == metav1.ConditionTrue }

// IsNo says whether it is not so.
func (f Finding) IsNo() bool { return f.Status == metav1.ConditionFalse }

// Findings are findings by condition type.
type Findings map[string]Finding

// Ready gives the finding for the condition Ready: yes with the given message
// when all of these condition types are True, else no with the reason and
// message of the first that is False, or of the first that is Unknown when none
// is False.
func (f Findings) Ready(message string, types ...string) Finding {
	for _, stands := range []func(Finding) bool{Finding.IsNo, isOpen} {
		for _, t := range types {
			if have, ok := f[t]; ok && stands(have) {
				return No(have.Reason, have.Message)
			}
		}
	}
	return Yes("Ready", message)
}

// isOpen says whether it is neither so nor not so.
func isOpen(f Finding) bool { return !f.IsYes() && !f.IsNo() }

// Write puts the findings on the object as its conditions, about its present
// generation. Every condition type of the object is there afterwards; those
// without a finding keep what they had, or are Unknown. now is taken for those
// whose status changes.
func Write(o crdv1.Conditioned, f Findings, now metav1.Time) {
	conds := o.StatusConditions()
	*conds = crdv1.CompleteConditions(*conds, o.ConditionTypes(), o.GetGeneration(), now)
	write := func(conditionType string) {
		have, ok := f[conditionType]
		if !ok {
			return
		}
		crdv1.SetCondition(conds, metav1.Condition{
			Type: conditionType, Status: have.Status, Reason: have.Reason, Message: have.Message,
			ObservedGeneration: o.GetGeneration(), LastTransitionTime: now,
		})
	}
	known := map[string]bool{}
	for _, t := range o.ConditionTypes() {
		known[t] = true
		write(t)
	}
	for _, t := range sortedRest(f, known) {
		write(t)
	}
}
