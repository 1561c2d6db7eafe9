package dryrun

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"switchyard.dev/reconcilers/inmemory"
)

// Placeholders in new objects for values that the API server assigns.
const (
	// newUID begins its UID.
	newUID = "dry-run-"
	// newAddress is the placeholder for the cluster IP of a Service.
	newAddress = "dry-run"
)

// submit writes the object as a user who applies it.
func (w *world) submit(ctx context.Context, o client.Object) error {
	content, gvk, err := w.document(o)
	if err != nil {
		return err
	}
	next, err := w.find(ctx, gvk, client.ObjectKeyFromObject(o))
	save := func() error { return w.Update(ctx, next) }
	if err == nil && next == nil {
		next, err = blank(w.scheme, gvk)
		save = func() error { return w.Create(ctx, next) }
	}
	if err != nil {
		return err
	}
	next.SetName(o.GetName())
	next.SetNamespace(o.GetNamespace())
	next.SetLabels(added(next.GetLabels(), o.GetLabels()))
	next.SetAnnotations(added(next.GetAnnotations(), o.GetAnnotations()))
	after, _, err := w.document(next)
	if err != nil {
		return err
	}
	after["spec"] = content["spec"]
	if next, err = convert(w.scheme, gvk, &unstructured.Unstructured{Object: after}); err != nil {
		return err
	}
	return save()
}

// added returns a new map with the entries of both maps; those of more take precedence.
func added(have, more map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, have)
	maps.Copy(out, more)
	return out
}

// apply applies the document of the only field manager, if the API server would accept it.
func (w *world) apply(ctx context.Context, store client.WithWatch, c runtime.ApplyConfiguration, options ...client.ApplyOption) error {
	doc := &unstructured.Unstructured{}
	if err := copyJSON(doc, c); err != nil {
		return err
	}
	gvk := doc.GroupVersionKind()
	if (&client.ApplyOptions{}).ApplyOptions(options).DryRun != nil {
		if _, err := w.find(ctx, gvk, client.ObjectKeyFromObject(doc)); err != nil {
			return err
		}
		return inmemory.DryRuns(w.store).Apply(ctx, store, c, options...)
	}
	if err := w.namespace(ctx, doc.GetNamespace()); err != nil {
		return err
	}
	stored, err := w.accepted(ctx, doc)
	if err != nil {
		return err
	}
	now, err := w.find(ctx, gvk, client.ObjectKeyFromObject(doc))
	if err != nil {
		return err
	}
	unchanged := false
	if stored != nil {
		if unchanged, err = w.unchanged(stored); err != nil {
			return err
		}
	}
	if !unchanged {
		if err := w.write(ctx, gvk, doc, func() error { return store.Apply(ctx, c, options...) }); err != nil {
			return err
		}
		if now, err = w.find(ctx, gvk, client.ObjectKeyFromObject(doc)); err != nil {
			return err
		}
	}
	content, _, err := w.document(now)
	if err != nil {
		return err
	}
	return copyJSON(c, content)
}

// copyJSON copies from to into by way of JSON.
func copyJSON(into, from any) error {
	text, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// namespace returns the API server's error for an object in a namespace that does not exist; nil if the
// caller may not read namespaces.
func (w *world) namespace(ctx context.Context, name string) error {
	if name == "" {
		return nil
	}
	err := w.Get(ctx, client.ObjectKey{Name: name}, &corev1.Namespace{})
	if apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

// create writes an object that is new.
func (w *world) create(ctx context.Context, store client.WithWatch, o client.Object, options ...client.CreateOption) error {
	return w.writeBack(ctx, o, func() error { return store.Create(ctx, o, options...) })
}

// update writes an object as a whole.
func (w *world) update(ctx context.Context, store client.WithWatch, o client.Object, options ...client.UpdateOption) error {
	return w.writeBack(ctx, o, func() error { return store.Update(ctx, o, options...) })
}

// patch changes an object.
func (w *world) patch(ctx context.Context, store client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
	if (&client.PatchOptions{}).ApplyOptions(options).DryRun != nil { // It was read before.
		return inmemory.DryRuns(w.store).Patch(ctx, store, o, patch, options...)
	}
	return w.writeBack(ctx, o, func() error { return store.Patch(ctx, o, patch, options...) })
}

// patchStatus changes the status of an object.
func (w *world) patchStatus(ctx context.Context, store client.Client, _ string, o client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
	return w.writeBack(ctx, o, func() error { return store.Status().Patch(ctx, o, patch, options...) })
}

// writeBack writes an object, and sets o to the result.
func (w *world) writeBack(ctx context.Context, o client.Object, do func() error) error {
	gvk, err := apiutil.GVKForObject(o, w.scheme)
	if err == nil {
		err = w.write(ctx, gvk, o, do)
	}
	if err != nil {
		return err
	}
	return client.IgnoreNotFound(w.Get(ctx, client.ObjectKeyFromObject(o), o))
}

// delete deletes an object.
func (w *world) delete(ctx context.Context, store client.WithWatch, o client.Object, options ...client.DeleteOption) error {
	gvk, err := apiutil.GVKForObject(o, w.scheme)
	if err != nil {
		return err
	}
	return w.write(ctx, gvk, o, func() error { return store.Delete(ctx, o, options...) })
}

// write writes an object, sets the fields that the API server would, and calls changed if the object
// differs. UIDs are not compared, since a world has only one writer.
func (w *world) write(ctx context.Context, gvk schema.GroupVersionKind, o client.Object, do func() error) error {
	key := client.ObjectKeyFromObject(o)
	before, err := w.find(ctx, gvk, key)
	if err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	after, err := w.find(ctx, gvk, key)
	if err != nil || before == nil && after == nil {
		return err
	}
	if after != nil {
		if same, err := w.admit(before, after); same || err != nil {
			return err
		}
		resource, _ := meta.UnsafeGuessKindToResource(gvk)
		if err := w.store.Update(resource, after, key.Namespace); err != nil {
			return err
		}
	}
	id := identity{gvk.GroupKind(), key}
	if _, ok := w.written[id]; !ok {
		w.wrote = append(w.wrote, id)
	}
	w.written[id] = after
	w.changed(id, before, after)
	return nil
}

// admit sets the fields that the API server assigns: the UID of a new object, and the generation after
// a change of the spec. It reports whether the object is unchanged.
func (w *world) admit(before, after client.Object) (same bool, err error) {
	if before == nil {
		w.made++
		after.SetUID(types.UID(fmt.Sprint(newUID, w.made)))
		after.SetGeneration(1)
		after.SetCreationTimestamp(metav1.NewTime(w.now).Rfc3339Copy())
		if s, ok := after.(*corev1.Service); ok && s.Spec.ClusterIP == "" && s.Spec.Type == corev1.ServiceTypeClusterIP {
			s.Spec.ClusterIP = newAddress
		}
		return false, nil
	}
	was, _, err := w.document(before)
	if err != nil {
		return false, err
	}
	is, _, err := w.document(after)
	if err != nil {
		return false, err
	}
	after.SetGeneration(before.GetGeneration())
	if !reflect.DeepEqual(was["spec"], is["spec"]) {
		after.SetGeneration(before.GetGeneration() + 1)
	}
	for _, d := range []map[string]any{was, is} { // Each write counts for the client in memory.
		unstructured.RemoveNestedField(d, "metadata", "resourceVersion")
	}
	return reflect.DeepEqual(was, is), nil
}

// same reports whether two objects are the same but for their status and for metadata that the API
// server writes.
func (w *world) same(a, b client.Object) (bool, error) {
	var all [2]map[string]any
	for i, o := range []client.Object{a, b} {
		content, _, err := w.document(o)
		if err != nil {
			return false, err
		}
		delete(content, "status")
		for _, field := range []string{"resourceVersion", "generation", "managedFields"} {
			unstructured.RemoveNestedField(content, "metadata", field)
		}
		all[i] = content
	}
	return reflect.DeepEqual(all[0], all[1]), nil
}

// document returns an object as JSON would have it, and its kind.
func (w *world) document(o client.Object) (map[string]any, schema.GroupVersionKind, error) {
	gvk, err := apiutil.GVKForObject(o, w.scheme)
	if err != nil {
		return nil, gvk, err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, gvk, fmt.Errorf("write %s: %w", w.name(o), err)
	}
	if _, ok := o.(*unstructured.Unstructured); ok {
		content = runtime.DeepCopyJSON(content) // It is the object itself.
	}
	content["kind"], content["apiVersion"] = gvk.Kind, gvk.GroupVersion().String()
	return content, gvk, nil
}

// convert returns an object in the type of its kind. Fields that the kind does not
// have are an error.
func convert(scheme *runtime.Scheme, gvk schema.GroupVersionKind, o client.Object) (client.Object, error) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		out, ok := o.DeepCopyObject().(client.Object)
		if !ok {
			return nil, fmt.Errorf("%T is not an object", o)
		}
		return out, nil
	}
	out, err := blank(scheme, gvk)
	if err != nil {
		return nil, err
	}
	if free, ok := out.(*unstructured.Unstructured); ok {
		free.Object = runtime.DeepCopyJSON(u.Object)
		return free, nil
	}
	return out, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, out, true)
}
