package publish

import (
	"encoding/json"
	"path"
	"slices"
	"strings"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
)

// CauseOf returns the cause of a fact about the object: the object itself, its last writer and the recorded
// author of its specification. If only
// the operator wrote the object, it is the cause in AnnotationOnBehalf, which is ignored on objects with
// other writers. An admission policy of the chart (signadot-marks) denies others to write the annotation, and
// to change an object that has it under the operator's field manager.
func CauseOf(kind string, o metav1.Object) event.Cause {
	chain := causes(kind, o)
	first := chain[0]
	via := lists.Map(chain[1:], func(c event.Cause) string { return path.Join(c.Kind, c.Namespace, c.Name) })
	first.Via = strings.Join(via, ",")
	return first
}

// MakerOf returns the cause of the deletion of the object: its owner in the chain of causes, or the
// object itself. The last change of the object is unrelated.
func MakerOf(kind string, o metav1.Object) event.Cause {
	chain := causes(kind, o)
	return chain[len(chain)-1]
}

// causes returns the object with the change that caused the state of this one, followed by those in
// between, the owner of this one last.
func causes(kind string, o metav1.Object) []event.Cause {
	own := event.Cause{
		Kind:       kind,
		Namespace:  o.GetNamespace(),
		Name:       o.GetName(),
		UID:        string(o.GetUID()),
		Generation: o.GetGeneration(),
		Manager:    plain(lastManager(o.GetManagedFields())),
	}
	if own.Manager != crdv1.FieldManager {
		author, _, _ := crdv1.AuthorOf(o.GetAnnotations()) // one that cannot be read counts as none
		own.Author = plain(author.User)
		return []event.Cause{own}
	}
	if chain := parse(o.GetAnnotations()[crdv1.AnnotationOnBehalf]); len(chain) > 0 {
		return chain
	}
	return []event.Cause{own}
}

// behalf is a cause in the form of the annotation.
type behalf struct {
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	UID        string `json:"uid,omitempty"`
	Generation int64  `json:"generation,omitempty"`
	Manager    string `json:"manager,omitempty"`
	Author     string `json:"author,omitempty"`
	// Through are the objects between the cause and the annotated object, each within the
	// one before it.
	Through *behalf `json:"through,omitempty"`
}

// OnBehalf returns the value of AnnotationOnBehalf for a cause, and the objects through which it
// reaches the annotated one, its owner last.
func OnBehalf(c event.Cause, through ...event.Cause) string {
	var b *behalf
	for _, c := range slices.Backward(append([]event.Cause{c}, through...)) {
		b = &behalf{c.Kind, c.Namespace, c.Name, c.UID, c.Generation, c.Manager, c.Author, b}
	}
	text, _ := json.Marshal(b) // Texts and numbers: that cannot fail.
	return string(text)
}

// parse parses the result of OnBehalf; nil if it is invalid.
func parse(s string) []event.Cause {
	var b *behalf
	if err := json.Unmarshal([]byte(s), &b); err != nil {
		return nil
	}
	var out []event.Cause
	for ; b != nil; b = b.Through {
		if b.Kind == "" || b.Name == "" {
			return nil
		}
		out = append(out, event.Cause{
			Kind: plain(b.Kind), Namespace: plain(b.Namespace), Name: plain(b.Name), UID: plain(b.UID), Generation: b.Generation,
			Manager: plain(b.Manager), Author: plain(b.Author),
		})
	}
	return out
}

// plain returns a text without unprintable characters, such as control characters: causes
// reach the history, records and terminals.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, s)
}

// lastManager returns the last field manager of the object, except for its status: preferably one other
// than the operator, since that only adds a finalizer to other owners' objects.
func lastManager(entries []metav1.ManagedFieldsEntry) string {
	entries = slices.DeleteFunc(slices.Clone(entries), func(e metav1.ManagedFieldsEntry) bool {
		return e.Subresource != "" || e.Time == nil
	})
	if len(entries) == 0 {
		return ""
	}
	return slices.MaxFunc(entries, func(a, b metav1.ManagedFieldsEntry) int {
		if oursA, oursB := a.Manager == crdv1.FieldManager, b.Manager == crdv1.FieldManager; oursA != oursB {
			if oursA {
				return -1
			}
			return 1
		}
		return a.Time.Compare(b.Time.Time)
	}).Manager
}
