package istioadapter

import (
	"bytes"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"switchyard.dev/reconcilers/meshes/istio/names"
	"switchyard.dev/reconcilers/meshes/istioadapter/rewrites"
)

// markReviewed marks a VirtualService that gets routes within a write, if the write is one of too many
// that remove them.
func (a *Adapter) markReviewed(req *admissionv1.AdmissionRequest, o, want *unstructured.Unstructured) {
	id := types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
	switch {
	case req.DryRun != nil && *req.DryRun || !names.HasRoutes(want):
	case names.HasRoutes(o):
		a.rewrites.Forget(id)
	case bytes.Contains(req.OldObject.Raw, []byte(names.Prefix)):
		if by := rewrites.WriterOf(o, req.UserInfo.Username); a.rewrites.Count(id, by, time.Now()) {
			annotate(want, rewrites.Annotation, by)
		}
	}
}

// markRewritten marks the VirtualServices of a sync from which too many writes have removed the routes,
// since they were read or written last. before may be nil. No other goroutine has now yet.
func (a *Adapter) markRewritten(before, now *state, since map[types.NamespacedName]written) {
	if before == nil {
		return
	}
	for id, k := range now.objects {
		had := since[id].got
		if of := before.objects[id]; had == nil && of != nil {
			had = of.have
		}
		if !rewrites.Removed(had, k.have) || !names.HasRoutes(k.rendering.Object) {
			continue
		}
		if by := rewrites.WriterOf(k.have, "unknown"); a.rewrites.Count(id, by, time.Now()) {
			annotate(k.rendering.Object, rewrites.Annotation, by)
		}
	}
}
