// Package condition computes the conditions of an object, before they are written to the status. It is
// pure.
//
// A problem with a user's request is a condition, never an error, since a retry would not help. It has
// a reason for programs and a message for users, with the problem, the object and the remedy.
package condition

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// Condition is a condition of an object without its type and times.
type Condition struct {
	// Status is True, False or Unknown.
	Status metav1.ConditionStatus
	// Reason is one CamelCase word for programs.
	Reason string
	// Message is a text for users.
	Message string
}

// True returns a condition that holds.
func True(reason, message string) Condition {
	return Condition{metav1.ConditionTrue, reason, message}
}

// False returns a condition that does not hold; the message has the remedy.
func False(reason, message string) Condition {
	return Condition{metav1.ConditionFalse, reason, message}
}

// Unknown returns a condition that is not known at present.
func Unknown(reason, message string) Condition {
	return Condition{metav1.ConditionUnknown, reason, message}
}

// IsTrue reports whether the condition holds.
func (c Condition) IsTrue() bool { return c.Status == metav1.ConditionTrue }

// IsFalse reports whether the condition does not hold; an unknown one may.
func (c Condition) IsFalse() bool { return c.Status == metav1.ConditionFalse }

// List returns the first names, at most most of them, joined for a message, and the number of the
// others.
func List(names []string, most int, separator string) string {
	if more := len(names) - most; more > 0 {
		names = append(slices.Clone(names[:most]), fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, separator)
}

// sentenceEnd is where a sentence of a message ends.
var sentenceEnd = regexp.MustCompile(`[.?!]( [A-Z]|$)`)

// Advise returns the first sentence of a message, followed by the advice. Further lines of the message,
// such as the last lines of a script, stay at the end.
func Advise(message, advice string) string {
	text, below, more := strings.Cut(message, "\n")
	if end := sentenceEnd.FindStringIndex(text); end != nil {
		text = text[:end[0]]
	}
	if text += ". " + advice; more {
		text += "\n" + below
	}
	return text
}

// lowered are words that begin sentences and are no names.
var lowered = strings.NewReplacer("; Some ", "; some ", "; In ", "; in ", "; Of ", "; of ", "; Ports ", "; ports ", "; Requests ", "; requests ")

// OneSentence returns a message as one sentence of one line, to follow another sentence.
func OneSentence(message string) string {
	message = strings.Join(strings.Fields(message), " ")
	var out strings.Builder
	for {
		end := sentenceEnd.FindStringIndex(message)
		if end == nil || end[1] >= len(message) {
			return lowered.Replace(out.String() + message)
		}
		out.WriteString(message[:end[0]] + "; ")
		message = message[end[0]+len(". "):]
	}
}

// Set is conditions by type.
type Set map[string]Condition

// Ready returns the condition Ready: True with the given message when all of these types
// are True, else False with the reason and message of the first that is False, or of the
// first that is Unknown when none is False.
func (s Set) Ready(message string, types ...string) Condition {
	for _, stands := range []func(Condition) bool{Condition.IsFalse, isUnknown} {
		for _, t := range types {
			if have, ok := s[t]; ok && stands(have) {
				return False(have.Reason, have.Message)
			}
		}
	}
	return True("Ready", message)
}

// isUnknown reports whether it is neither so nor not so.
func isUnknown(f Condition) bool { return !f.IsTrue() && !f.IsFalse() }

// Drop removes a condition that no longer applies to the object.
func Drop(o crdv1.Conditioned, conditionType string) {
	conds := o.StatusConditions()
	*conds = slices.DeleteFunc(*conds, func(c crdv1.StatusCondition) bool { return c.Type == conditionType })
}

// Write sets the conditions of the object, for its present generation. Afterwards it has every
// condition type of its kind; those that are not in f are unchanged, or Unknown if they were missing.
// now is the transition time of those that change.
func Write(o crdv1.Conditioned, f Set, now metav1.Time) {
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
