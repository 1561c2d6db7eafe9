package adapter

import (
	"bytes"
	"cmp"
	"fmt"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/meshes/adapter/managedfields"
	"switchyard.dev/reconcilers/meshes/istio"
	"switchyard.dev/reconcilers/meshes/istio/names"
)

// AnnotationRewrittenBy, on a VirtualService, is the field manager that replaces its routes again and
// again without the operator's. The replica that counts may not be the one that reports it.
const AnnotationRewrittenBy = "istio.signadot.com/rewritten-by"

const (
	// often is how many such writes in a row are reported.
	often = 9
	// inARow is the longest time between two of them.
	inARow = 5 * time.Minute
)

// rewrites counts, by VirtualService, the writes that removed all of the operator's routes. The zero
// value is ready to use.
type rewrites struct {
	mu sync.Mutex
	of map[types.NamespacedName]rewriting
}

// rewriting are writes of one field manager, in a row.
type rewriting struct {
	by    string
	times int
	last  time.Time
}

// count counts a write of a field manager and reports whether it is one of too many.
func (r *rewrites) count(id types.NamespacedName, by string, now time.Time) bool {
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

// forget begins to count again.
func (r *rewrites) forget(id types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.of, id)
}

// markReviewed marks a VirtualService that gets routes within a write, if the write is one of too many
// that remove them.
func (a *Adapter) markReviewed(req *admissionv1.AdmissionRequest, o, want *unstructured.Unstructured) {
	id := types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
	switch {
	case req.DryRun != nil && *req.DryRun || !names.HasRoutes(want):
	case names.HasRoutes(o):
		a.rewrites.forget(id)
	case bytes.Contains(req.OldObject.Raw, []byte(names.Prefix)):
		if by := writerOf(o, req.UserInfo.Username); a.rewrites.count(id, by, time.Now()) {
			mark(want, by)
		}
	}
}

// markRewritten marks the VirtualServices of a sync from which too many writes have removed the routes.
// before may be nil. No other goroutine has now yet.
func (a *Adapter) markRewritten(before, now *state) {
	if before == nil {
		return
	}
	for id, k := range now.objects {
		had := before.objects[id]
		if had == nil || had.have.GetResourceVersion() == k.have.GetResourceVersion() ||
			!names.HasRoutes(had.have) || names.HasRoutes(k.have) || !names.HasRoutes(k.rendering.Object) {
			continue
		}
		if by := writerOf(k.have, "unknown"); a.rewrites.count(id, by, time.Now()) {
			mark(k.rendering.Object, by)
		}
	}
}

// mark sets AnnotationRewrittenBy.
func mark(o *unstructured.Unstructured, by string) {
	annotations := o.GetAnnotations() // A copy.
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[AnnotationRewrittenBy] = by
	o.SetAnnotations(annotations)
}

// unmark removes AnnotationRewrittenBy.
func unmark(o *unstructured.Unstructured) {
	annotations := o.GetAnnotations()
	if _, has := annotations[AnnotationRewrittenBy]; !has {
		return
	}
	delete(annotations, AnnotationRewrittenBy)
	if len(annotations) == 0 {
		unstructured.RemoveNestedField(o.Object, "metadata", "annotations")
		return
	}
	o.SetAnnotations(annotations)
}

// writerOf returns the field manager that wrote the routes of a VirtualService last, or other if
// none is recorded.
func writerOf(o *unstructured.Unstructured, other string) string {
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

// rewritten returns the note about a VirtualService that is marked; empty for others.
func rewritten(o *unstructured.Unstructured) string {
	by := o.GetAnnotations()[AnnotationRewrittenBy]
	if by == "" {
		return ""
	}
	return fmt.Sprintf("Field manager %s has replaced the routes of VirtualService %s/%s at least %d times in a row without the operator's routes, which the operator restores each time. "+
		"Configure it to keep routes with names that begin with %s, or annotate the VirtualService with %s=true, and it gets no routes. Then remove its annotation %s.",
		by, o.GetNamespace(), o.GetName(), often, names.Prefix, istio.AnnotationIgnore, AnnotationRewrittenBy)
}
