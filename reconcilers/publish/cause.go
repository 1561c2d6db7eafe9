package publish

import (
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
)

// CauseOf says on whose behalf a fact about the object is stated: the object
// itself and who wrote it last. An object that we made for another one has a
// person behind that other one, so what AnnotationOnBehalf says counts there;
// on an object that others have written it counts for nothing.
func CauseOf(kind string, o metav1.Object) event.Cause {
	own := event.Cause{
		Kind:       kind,
		Namespace:  o.GetNamespace(),
		Name:       o.GetName(),
		UID:        string(o.GetUID()),
		Generation: o.GetGeneration(),
		Manager:    lastManager(o.GetManagedFields()),
	}
	if said, ok := o.GetAnnotations()[crdv1.AnnotationOnBehalf]; ok && own.Manager == crdv1.FieldManager {
		if behalf, ok := parse(said); ok {
			return behalf
		}
	}
	return own
}

// behalf is a cause as an annotation says it.
type behalf struct {
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	UID        string `json:"uid,omitempty"`
	Generation int64  `json:"generation,omitempty"`
	Manager    string `json:"manager,omitempty"`
}

// OnBehalf writes a cause down for AnnotationOnBehalf.
func OnBehalf(c event.Cause) string {
	// Texts and a number: that cannot fail.
	b, _ := json.Marshal(behalf{c.Kind, c.Namespace, c.Name, c.UID, c.Generation, c.Manager})
	return string(b)
}

func parse(s string) (event.Cause, bool) {
	var b behalf
	if err := json.Unmarshal([]byte(s), &b); err != nil || b.Kind == "" || b.Name == "" {
		return event.Cause{}, false
	}
	return event.Cause{
		Kind: b.Kind, Namespace: b.Namespace, Name: b.Name, UID: b.UID, Generation: b.Generation, Manager: b.Manager,
	}, true
}

// lastManager gives who wrote the object last, its status apart: somebody else
// than us if anybody, since all that we write to the objects of others is a
// finalizer.
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
