// Package pacing decides when derived DestinationRules that are out of date are written: after growing
// pauses, if another program changes them after the operator's writes.
package pacing

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"switchyard.dev/reconcilers/meshes/destinationrules"
)

// calm is how long after the operator's write a change by another program does not count. It is longer
// than the longest pause.
const calm = time.Minute

// Writes are the operator's last writes. The zero value is ready to use.
type Writes struct {
	mu sync.Mutex
	of map[types.NamespacedName]write
}

// write is the last write of an object.
type write struct {
	// object is the object as written; nil after its deletion. before is the version that it replaced.
	object *unstructured.Unstructured
	before string
	at     time.Time
	// queued: the next write waits for its pause.
	queued bool
}

// When is when an object is written.
type When int

// Now is at once, Later after the next pause. Never is until another call: the object is queued
// already, or the cache has not yet the operator's last write.
const (
	Now When = iota
	Later
	Never
)

// Wrote records a write, before which the cache had another version; nil for none.
func (w *Writes) Wrote(id types.NamespacedName, had, object *unstructured.Unstructured, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of == nil {
		w.of = map[types.NamespacedName]write{}
	}
	maps.DeleteFunc(w.of, func(_ types.NamespacedName, of write) bool { return at.Sub(of.at) > calm }) // Their pauses begin again.
	w.of[id] = write{object: object, before: version(had), at: at}
}

// Begin records that the queue returned an object. The caller reads the wanted object after that.
func (w *Writes) Begin(id types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if last, has := w.of[id]; has {
		last.queued = false
		w.of[id] = last
	}
}

// Next returns when to write an object that is out of date and that the cache has in this version; nil
// if it does not exist. After Later it returns Never until Begin or Wrote is called.
func (w *Writes) Next(id types.NamespacedName, have *unstructured.Unstructured, now time.Time) When {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, has := w.of[id]
	switch {
	case !has || now.Sub(last.at) > calm || last.left(have):
		return Now
	case last.queued, have != nil && last.before == version(have):
		return Never
	}
	last.queued = true
	w.of[id] = last
	return Later
}

// left reports whether an object is as it was written.
func (w write) left(have *unstructured.Unstructured) bool {
	if w.object == nil || have == nil {
		return w.object == nil && have == nil
	}
	return destinationrules.Same(have, w.object)
}

// Calm reports whether the last write of an object is so long ago that its pauses begin again, and
// forgets it then.
func (w *Writes) Calm(id types.NamespacedName, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if last, has := w.of[id]; has && now.Sub(last.at) <= calm {
		return false
	}
	delete(w.of, id)
	return true
}

func version(o *unstructured.Unstructured) string {
	if o == nil {
		return ""
	}
	return o.GetResourceVersion()
}
