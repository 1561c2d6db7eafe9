package istioadapter

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"switchyard.dev/reconcilers/meshes/istio"
	"switchyard.dev/reconcilers/meshes/istio/names"
	"switchyard.dev/reconcilers/meshes/istioadapter/managedfields"
	"switchyard.dev/reconcilers/meshes/istioadapter/rewrites"
	"switchyard.dev/reconcilers/meshes/istioadapter/routepatch"
)

// Path is where the API server asks about VirtualServices.
const Path = "/mutate-networking-istio-io-virtualservice"

// awaits bounds how long a review waits for this process to know as much as the one that
// writes, or anything at all. The API server waits 2 s for the answer.
const awaits = time.Second

// mostReviews bounds concurrent reviews. Further requests are answered at once, without routes, which
// the leader then adds, so that the webhook never delays the writes of a whole cluster. The leader
// itself writes atOnce VirtualServices at a time.
const mostReviews = 4 * atOnce

// Review adds to a VirtualService, within a write that would remove them, the operator's routes that it
// should have. It denies no request: an object that it cannot process is written unchanged, and the
// leader adds the routes.
func (a *Adapter) Review(ctx context.Context, req *admissionv1.AdmissionRequest) (answer *admissionv1.AdmissionResponse) {
	answer = &admissionv1.AdmissionResponse{Allowed: true}
	defer func() {
		if fault := recover(); fault != nil {
			a.config.Logger.Error("routes could not be put into a VirtualService within its write; the leader does so after it",
				"namespace", req.Namespace, "name", req.Name, "panic", fmt.Sprint(fault))
			answer = &admissionv1.AdmissionResponse{Allowed: true}
		}
	}()
	o := &unstructured.Unstructured{}
	if req.Kind.Group != VirtualServices.Group || o.UnmarshalJSON(req.Object.Raw) != nil || o.GetDeletionTimestamp() != nil {
		return answer
	}
	if !a.reviews.TryAcquire(1) {
		return answer
	}
	defer a.reviews.Release(1)
	if o.GetNamespace() == "" {
		o.SetNamespace(req.Namespace)
	}
	own := req.UserInfo.Username == a.config.Own
	want := a.reviewed(ctx, own, o, beforeWrite(req))
	if want == nil {
		return answer
	}
	if !own {
		a.markReviewed(req, o, want)
	}
	patch := routepatch.Of(o, want)
	fields := managedfields.Passable(want)
	if had := o.GetAnnotations()[AnnotationRoutes] != ""; (own || had) && want.GetAnnotations()[AnnotationRoutes] == "" {
		fields = managedfields.Returned(want)
	}
	if !reflect.DeepEqual(fields, o.GetManagedFields()) {
		patch = append(patch, routepatch.Operation{Op: "add", Path: "/metadata/managedFields", Value: fields})
	}
	if len(patch) == 0 {
		return answer
	}
	text, err := json.Marshal(patch)
	if err != nil {
		a.config.Logger.Error("a patch of a VirtualService cannot be written", "namespace", req.Namespace, "name", req.Name, "error", err)
		return answer
	}
	as := admissionv1.PatchTypeJSONPatch
	answer.Patch, answer.PatchType = text, &as
	return answer
}

// crowded is from how many bytes on it may matter which keys had room in an object.
const crowded = 1 << 20

// beforeWrite returns the object as it was before a write that is reviewed, if that matters: those
// keys keep their room that had it. Else it is nil.
func beforeWrite(req *admissionv1.AdmissionRequest) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	if len(req.OldObject.Raw) < crowded || o.UnmarshalJSON(req.OldObject.Raw) != nil {
		return nil
	}
	return o
}

// reviewed returns the wanted VirtualService; nil to leave it as it is. The digest in a write of the
// leader (own) identifies the leader's routes. If this process has not caught up with them, reviewed
// waits up to awaits, and then leaves the object as it is, so that two managers never undo each other's
// writes.
func (a *Adapter) reviewed(ctx context.Context, own bool, o, before *unstructured.Unstructured) *unstructured.Unstructured {
	ctx, cancel := context.WithTimeout(ctx, awaits)
	defer cancel()
	if !own {
		if a.synced.Until(ctx, func() bool { return a.current() != nil }) != nil {
			return nil
		}
		return render(a.current(), o, before).Object
	}
	meant := o.GetAnnotations()[AnnotationRoutes]
	if want := a.known(o, meant); want != nil {
		return want
	}
	if meant != "" && meant == digest(o) {
		return nil // It has the routes with it.
	}
	var want *unstructured.Unstructured
	if a.synced.Until(ctx, func() bool {
		mesh := a.current()
		if mesh == nil {
			return false
		}
		want = render(mesh, o, before).Object
		return want.GetAnnotations()[AnnotationRoutes] == meant
	}) != nil {
		return nil
	}
	return want
}

// known returns the newest sync's rendering of the version that is written, if the digest identifies
// it; otherwise nil. With hundreds of routes it saves rendering twice per write. It is also nil if
// another webhook has changed more than the leader did.
func (a *Adapter) known(o *unstructured.Unstructured, meant string) *unstructured.Unstructured {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state == nil {
		return nil
	}
	k := a.state.objects[types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}]
	if k == nil || k.have.GetUID() != o.GetUID() || k.have.GetResourceVersion() != o.GetResourceVersion() {
		return nil
	}
	had, want := withoutDigest(k.have), k.rendering.Object
	if want.GetAnnotations()[AnnotationRoutes] != meant || !maps.Equal(withoutDigest(o).GetAnnotations(), had.GetAnnotations()) ||
		!maps.Equal(o.GetLabels(), had.GetLabels()) || !names.Equal(o.Object["spec"], had.Object["spec"]) {
		return nil
	}
	as := &unstructured.Unstructured{Object: maps.Clone(o.Object)}
	as.Object["spec"], as.Object["metadata"] = want.Object["spec"], maps.Clone(o.Object["metadata"].(map[string]any))
	as.SetLabels(want.GetLabels())
	as.SetAnnotations(want.GetAnnotations())
	return as
}

// current returns the mesh of the newest sync; nil before the first.
func (a *Adapter) current() *istio.Mesh {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state == nil {
		return nil
	}
	return a.state.mesh
}

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
