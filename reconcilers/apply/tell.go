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

// actionReconcile is what was being done when something was noticed, as Events say it.
const actionReconcile = "Reconcile"

// longestNote is how many bytes of a note the API server takes.
const longestNote = 1024

// Event is what is told to people about an object.
type Event struct {
	// Type is Normal or Warning.
	Type string
	// Reason and Note are those of the condition Ready.
	Reason, Note string
}

// EventOf returns the Event that a change of an object's status is worth; false when it
// is worth none. It is pure.
//
// People are told when an object becomes ready, when it ceases to be, and when another
// thing stands in the way than before; not of the stages on the way there, which pass by
// themselves, nor of objects that we made for another one: what is wrong with them is
// said by the conditions of that one, where people look.
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

// isPart reports whether we made the object for another one. What somebody else's program
// made, such as a sandbox of its environment, is looked at like what people make.
func isPart(o client.Object) bool {
	ref := metav1.GetControllerOfNoCopy(o)
	return ref != nil && ref.APIVersion == crdv1.APIVersion
}

// passing reports whether a condition tells of a stage that passes by itself.
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

// tell gives people an Event when the change of an object's status is worth one. Events
// of one kind about one object become a series, which costs no further request: for
// that the reference to it may not hold its version, which every change changes.
//
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
func (w Writer) tell(ctx context.Context, before, after client.Object) {
	if e, ok := EventOf(before, after); ok {
		w.Tell(ctx, after, e)
	}
	for _, e := range CaveatsOf(before, after) {
		w.Tell(ctx, after, e)
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

// Tell gives people an Event about an object.
func (w Writer) Tell(ctx context.Context, after client.Object, e Event) {
	if w.Events == nil {
		return
	}
	kind, err := w.Client.GroupVersionKindFor(after)
	if err != nil {
		log.FromContext(ctx).Error(err, "An event cannot be told", "object", Describe(after), "reason", e.Reason)
		return
	}
	about := &corev1.ObjectReference{
		APIVersion: kind.GroupVersion().String(), Kind: kind.Kind,
		Namespace: after.GetNamespace(), Name: after.GetName(), UID: after.GetUID(),
	}
	w.Events.Eventf(about, nil, e.Type, e.Reason, actionReconcile, "%s", bounded(e.Note, longestNote))
}
