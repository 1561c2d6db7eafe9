package apply

import (
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// actionReconcile is the action of all Events.
const actionReconcile = "Reconcile"

// longestNote is how many bytes of a note the API server takes.
const longestNote = 1024

// Event is the content of an Event about an object.
type Event struct {
	// Type is Normal or Warning.
	Type string
	// Reason and Note are those of the condition Ready.
	Reason, Note string
}

// EventOf returns the Event for a change of an object's status; false if there is none. It is pure.
//
// There is an Event when an object becomes ready or unready, and when the reason for not being ready
// changes. There is none for stages that pass without action, nor for objects that the operator created
// for another one, since the conditions of the latter report their problems.
func EventOf(before, after client.Object) (Event, bool) {
	c := turned(before, after)
	if c == nil || isPart(after) || passing(c) {
		return Event{}, false
	}
	e := Event{Type: corev1.EventTypeWarning, Reason: c.Reason, Note: bounded(c.Message, longestNote)}
	if c.Status == string(metav1.ConditionTrue) || after.GetDeletionTimestamp() != nil {
		e.Type = corev1.EventTypeNormal
	}
	return e, e.Reason != ""
}

// isPart reports whether the operator created the object for another of its objects. An object
// controlled by another program, such as the sandbox of an environment, is not a part.
func isPart(o client.Object) bool {
	ref := metav1.GetControllerOfNoCopy(o)
	return ref != nil && ref.APIVersion == crdv1.APIVersion
}

// passing reports whether a condition is of a stage that passes without action.
func passing(c *crdv1.StatusCondition) bool {
	return c.Status != string(metav1.ConditionTrue) &&
		(c.Reason == crdv1.ReasonPending || c.Reason == crdv1.ReasonServiceSilent || strings.HasSuffix(c.Reason, "Progressing"))
}

// bounded cuts a text to a number of bytes, between two characters.
func bounded(text string, most int) string {
	const cut = "…"
	if len(text) <= most {
		return text
	}
	text = text[:most-len(cut)]
	for len(text) > 0 {
		if r, size := utf8.DecodeLastRuneInString(text); r != utf8.RuneError || size != 1 {
			break
		}
		text = text[:len(text)-1]
	}
	return text + cut
}

// recordChanges records the Events for a change of an object's status. Events of one kind about one object
// become a series, without further requests. For that, the reference to the object must not contain its
// resource version, which differs after every change.
//
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
func (w Writer) recordChanges(ctx context.Context, before, after client.Object) {
	if e, ok := EventOf(before, after); ok {
		w.Record(ctx, after, e)
	}
	for _, e := range CaveatsOf(before, after) {
		w.Record(ctx, after, e)
	}
}

// CaveatsOf returns an Event for each caveat that begins with a change of an object's status.
// It is pure.
func CaveatsOf(before, after client.Object) []Event {
	var out []Event
	had := caveats(before)
	for _, c := range caveats(after) {
		if !slices.Contains(had, c) {
			out = append(out, Event{Type: corev1.EventTypeWarning, Reason: "Caveat", Note: bounded(c, longestNote)})
		}
	}
	return out
}

// caveats returns the lines of the condition Caveats.
func caveats(o client.Object) []string {
	conditioned, ok := o.(crdv1.Conditioned)
	if !ok {
		return nil
	}
	c := crdv1.FindCondition(*conditioned.StatusConditions(), crdv1.ConditionCaveats)
	if c == nil {
		return nil
	}
	return strings.Split(c.Message, "\n")
}

// Record records an Event about an object.
func (w Writer) Record(ctx context.Context, after client.Object, e Event) {
	if w.Events == nil {
		return
	}
	kind, err := w.Client.GroupVersionKindFor(after)
	if err != nil {
		log.FromContext(ctx).Error(err, "Cannot record an event", "object", Describe(after), "reason", e.Reason)
		return
	}
	about := &corev1.ObjectReference{
		APIVersion: kind.GroupVersion().String(), Kind: kind.Kind,
		Namespace: after.GetNamespace(), Name: after.GetName(), UID: after.GetUID(),
	}
	w.Events.Eventf(about, nil, e.Type, e.Reason, actionReconcile, "%s", bounded(e.Note, longestNote))
}

// logTurn logs a status update that changes the status or the reason of Ready. Other updates are too
// frequent to log.
func logTurn(ctx context.Context, before, o client.Object) {
	if c := turned(before, o); c != nil {
		log.FromContext(ctx).Info("readiness changed",
			"object", Describe(o), "ready", c.Status, "reason", c.Reason, "message", c.Message)
	}
}

// turned returns the condition Ready of o when its status or reason is another
// than that of before, else nil.
func turned(before, o client.Object) *crdv1.StatusCondition {
	then, now := readiness(before), readiness(o)
	if now == nil || then != nil && then.Status == now.Status && then.Reason == now.Reason {
		return nil
	}
	return now
}

// readiness returns the condition Ready; nil when there is none.
func readiness(o client.Object) *crdv1.StatusCondition {
	c, ok := o.(crdv1.Conditioned)
	if !ok {
		return nil
	}
	return crdv1.FindCondition(*c.StatusConditions(), crdv1.ConditionReady)
}
