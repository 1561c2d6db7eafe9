// Package rewrites counts the writes of other field managers that remove the operator's routes from
// VirtualServices, and reports those that do so again and again.
package rewrites

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/meshes/istio"
	"switchyard.dev/reconcilers/meshes/istio/names"
	"switchyard.dev/reconcilers/meshes/istioadapter/managedfields"
)

// Annotation, on a VirtualService, is the field manager that replaces its routes again and again without
// the operator's. The replica that counts may not be the one that reports it.
const Annotation = "istio.signadot.com/rewritten-by"

const (
	// often is how many such writes in a row are reported.
	often = 9
	// inARow is the longest time between two of them.
	inARow = 5 * time.Minute
)

// Counter counts, by VirtualService, the writes that removed all of the operator's routes. The zero
// value is ready to use.
type Counter struct {
	mu sync.Mutex
	of map[types.NamespacedName]rewriting
}

// rewriting are writes of one field manager, in a row.
type rewriting struct {
	by    string
	times int
	last  time.Time
}

// Count counts a write of a field manager and reports whether it is one of too many.
func (r *Counter) Count(id types.NamespacedName, by string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of = map[types.NamespacedName]rewriting{}
	}
	for other, w := range r.of {
		if now.Sub(w.last) > inARow {
			delete(r.of, other)
		}
	}
	w := r.of[id]
	if w.by != by {
		w = rewriting{by: by}
	}
	w.times, w.last = w.times+1, now
	r.of[id] = w
	return w.times >= often
}

// Forget begins to count again.
func (r *Counter) Forget(id types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.of, id)
}

// Removed reports whether a VirtualService has lost the operator's routes. had is the newest version
// known before now, read or written by the operator itself, so that a write is counted even if it
// precedes the cache's event of the operator's write.
func Removed(had, now *unstructured.Unstructured) bool {
	return had != nil && had.GetUID() == now.GetUID() && had.GetResourceVersion() != now.GetResourceVersion() && names.HasRoutes(had) && !names.HasRoutes(now)
}

// WriterOf returns the field manager that wrote the routes of a VirtualService last, or other if
// none is recorded.
func WriterOf(o *unstructured.Unstructured, other string) string {
	var last metav1.ManagedFieldsEntry
	for _, e := range o.GetManagedFields() {
		if e.Manager == crdv1.FieldManager || !managedfields.Owns(e, "f:spec", "f:http") {
			continue
		}
		if last.Time == nil || e.Time != nil && !e.Time.Before(last.Time) {
			last = e
		}
	}
	return cmp.Or(last.Manager, other)
}

// Note returns the note about a VirtualService that is marked; empty for others.
func Note(o *unstructured.Unstructured) string {
	by := o.GetAnnotations()[Annotation]
	if by == "" {
		return ""
	}
	return fmt.Sprintf("Field manager %s has replaced the routes of VirtualService %s/%s at least %d times in a row without the operator's routes, which the operator restores each time. "+
		"Configure it to keep routes with names that begin with %s, or annotate the VirtualService with %s=true, and it gets no routes. Then remove its annotation %s.",
		by, o.GetNamespace(), o.GetName(), often, names.Prefix, istio.AnnotationIgnore, Annotation)
}
