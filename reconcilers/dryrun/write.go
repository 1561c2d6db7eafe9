package dryrun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"

	jsonpatch "github.com/evanphx/json-patch/v5"
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

	crdv1 "switchyard.dev/protos/crd/v1"
)

// What an object that would be new has in place of what the API server gives.
const (
	// newUID begins its UID.
	newUID = "dry-run-"
	// newAddress stands for the cluster IP of a Service.
	newAddress = "dry-run"
)

// errNotSimulated is what a write gives that no controller makes.
var errNotSimulated = errors.New("a dry run does not know this kind of write")

// submit writes the object as a person who applies it.
func (w *world) submit(ctx context.Context, o client.Object) error {
	content, gvk, err := w.document(o)
	if err != nil {
		return err
	}
	have, err := w.find(ctx, gvk, client.ObjectKeyFromObject(o))
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	wanted := map[string]any{"spec": content["spec"], "metadata": map[string]any{
		"name": o.GetName(), "labels": anyMap(o.GetLabels()), "annotations": anyMap(o.GetAnnotations()),
	}}
	if o.GetNamespace() != "" {
		wanted["metadata"].(map[string]any)["namespace"] = o.GetNamespace()
	}
	_, err = w.write(gvk, have, wanted)
	return err
}

// Apply implements client.Writer, with the whole of what its only field manager
// wants.
func (w *world) Apply(ctx context.Context, c runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
	written, err := json.Marshal(c)
	if err != nil {
		return err
	}
	doc := &unstructured.Unstructured{}
	if err := json.Unmarshal(written, doc); err != nil {
		return err
	}
	gvk := doc.GroupVersionKind()
	have, err := w.find(ctx, gvk, client.ObjectKeyFromObject(doc))
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if uid := doc.GetUID(); uid != "" && (have == nil || have.GetUID() != uid) {
		return apierrors.NewConflict(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, doc.GetName(),
			errors.New("it was replaced by another object of the same name"))
	}
	if err := w.namespace(ctx, doc.GetNamespace()); err != nil {
		return err
	}
	if err := w.accepted(ctx, doc); err != nil {
		return err
	}
	if have == nil {
		when := metav1.NewTime(w.now)
		doc.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: crdv1.FieldManager, Operation: metav1.ManagedFieldsOperationApply, Time: &when}})
	}
	now, err := w.write(gvk, have, doc.Object)
	if err != nil {
		return err
	}
	content, _, err := w.document(now)
	if err != nil {
		return err
	}
	if written, err = json.Marshal(content); err != nil {
		return err
	}
	return json.Unmarshal(written, c)
}

// namespace returns the error that the API server gives for an object in a
// namespace that does not exist. Who may not look is told nothing of that.
func (w *world) namespace(ctx context.Context, name string) error {
	if name == "" {
		return nil
	}
	_, err := w.find(ctx, corev1.SchemeGroupVersion.WithKind("Namespace"), client.ObjectKey{Name: name})
	if apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

// write makes the object what is wanted of it. have is what it is now, nil when
// there is none. The spec of our own kinds is ours as a whole.
func (w *world) write(gvk schema.GroupVersionKind, have client.Object, wanted map[string]any) (client.Object, error) {
	content := map[string]any{}
	if have != nil {
		var err error
		if content, _, err = w.document(have); err != nil {
			return nil, err
		}
		if _, ok := wanted["spec"]; ok && gvk.Group == crdv1.GroupVersion().Group {
			delete(content, "spec")
		}
	}
	merge(content, wanted)
	o, err := convert(w.scheme, gvk, &unstructured.Unstructured{Object: content})
	if err != nil {
		return nil, err
	}
	forgetKind(o)
	if have == nil {
		w.admit(o)
	}
	return o, w.put(gvk, have, o)
}

// forgetKind gives an object as clients give objects with a Go type.
func forgetKind(o client.Object) {
	if _, ok := o.(*unstructured.Unstructured); !ok {
		o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	}
}

// admit gives a new object what the API server gives it.
func (w *world) admit(o client.Object) {
	w.made++
	o.SetUID(types.UID(fmt.Sprint(newUID, w.made)))
	o.SetResourceVersion("1")
	o.SetGeneration(1)
	o.SetCreationTimestamp(metav1.NewTime(w.now).Rfc3339Copy())
	if s, ok := o.(*corev1.Service); ok && s.Spec.ClusterIP == "" && s.Spec.Type == corev1.ServiceTypeClusterIP {
		s.Spec.ClusterIP = newAddress
	}
}

// put keeps the object, whose generation goes up when its spec is another, and
// tells of it when it is not as it was.
func (w *world) put(gvk schema.GroupVersionKind, have, o client.Object) error {
	if have != nil {
		before, _, err := w.document(have)
		if err != nil {
			return err
		}
		after, _, err := w.document(o)
		if err != nil {
			return err
		}
		if reflect.DeepEqual(before, after) {
			return nil
		}
		o.SetGeneration(have.GetGeneration())
		if !reflect.DeepEqual(before["spec"], after["spec"]) {
			o.SetGeneration(have.GetGeneration() + 1)
		}
	}
	w.keep(identity{gvk.GroupKind(), client.ObjectKeyFromObject(o)}, have, o)
	return nil
}

// keep notes a write and tells of it.
func (w *world) keep(id identity, before, after client.Object) {
	if _, ok := w.written[id]; !ok {
		w.wrote = append(w.wrote, id)
	}
	w.written[id] = after
	w.changed(id, before, after)
}

// Patch implements client.Writer for merge patches.
func (w *world) Patch(ctx context.Context, o client.Object, patch client.Patch, _ ...client.PatchOption) error {
	return w.patch(ctx, o, patch, func(next, have map[string]any) { next["status"] = have["status"] })
}

// patch changes the object as the patch says. restore takes back what the write
// cannot change.
func (w *world) patch(ctx context.Context, o client.Object, patch client.Patch, restore func(next, have map[string]any)) error {
	gvk, err := apiutil.GVKForObject(o, w.scheme)
	if err != nil {
		return err
	}
	if patch.Type() != types.MergePatchType {
		return fmt.Errorf("%s: %w", patch.Type(), errNotSimulated)
	}
	have, err := w.find(ctx, gvk, client.ObjectKeyFromObject(o))
	if err != nil {
		return err
	}
	next, err := w.patched(have, o, patch)
	if err != nil {
		return err
	}
	before, _, err := w.document(have)
	if err != nil {
		return err
	}
	restore(next, before)
	if next["status"] == nil {
		delete(next, "status")
	}
	now, err := convert(w.scheme, gvk, &unstructured.Unstructured{Object: next})
	if err != nil {
		return err
	}
	forgetKind(now)
	if now.GetDeletionTimestamp() != nil && len(now.GetFinalizers()) == 0 {
		w.keep(identity{gvk.GroupKind(), client.ObjectKeyFromObject(o)}, have, nil)
	} else if err := w.put(gvk, have, now); err != nil {
		return err
	}
	return assign(o, now)
}

// patched returns the content of have with the patch that leads to o.
func (w *world) patched(have, o client.Object, patch client.Patch) (map[string]any, error) {
	data, err := patch.Data(o)
	if err != nil {
		return nil, err
	}
	content, _, err := w.document(have)
	if err != nil {
		return nil, err
	}
	written, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	if written, err = jsonpatch.MergePatch(written, data); err != nil {
		return nil, err
	}
	next := &unstructured.Unstructured{}
	if err := json.Unmarshal(written, next); err != nil {
		return nil, err
	}
	return next.Object, nil
}

// Delete implements client.Writer. An object with finalizers goes when they are
// gone.
func (w *world) Delete(ctx context.Context, o client.Object, options ...client.DeleteOption) error {
	gvk, err := apiutil.GVKForObject(o, w.scheme)
	if err != nil {
		return err
	}
	have, err := w.find(ctx, gvk, client.ObjectKeyFromObject(o))
	if err != nil {
		return err
	}
	d := client.DeleteOptions{}
	d.ApplyOptions(options)
	if p := d.Preconditions; p != nil && p.UID != nil && *p.UID != have.GetUID() {
		return apierrors.NewConflict(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, o.GetName(),
			errors.New("it was replaced by another object of the same name"))
	}
	id := identity{gvk.GroupKind(), client.ObjectKeyFromObject(o)}
	switch {
	case len(have.GetFinalizers()) == 0:
		w.keep(id, have, nil)
	case have.GetDeletionTimestamp() == nil:
		after, ok := have.DeepCopyObject().(client.Object)
		if !ok {
			return fmt.Errorf("%T is not an object", have)
		}
		now := metav1.NewTime(w.now).Rfc3339Copy()
		after.SetDeletionTimestamp(&now)
		w.keep(id, have, after)
	}
	return nil
}

// Status implements client.StatusClient.
func (w *world) Status() client.SubResourceWriter { return status{w} }

// status writes the status of objects alone.
type status struct{ world *world }

// Patch implements client.SubResourceWriter for merge patches.
func (s status) Patch(ctx context.Context, o client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	return s.world.patch(ctx, o, patch, func(next, have map[string]any) {
		now := next["status"]
		clear(next)
		maps.Copy(next, have)
		next["status"] = now
	})
}

// Create implements client.SubResourceWriter.
func (status) Create(context.Context, client.Object, client.Object, ...client.SubResourceCreateOption) error {
	return errNotSimulated
}

// Update implements client.SubResourceWriter.
func (status) Update(context.Context, client.Object, ...client.SubResourceUpdateOption) error {
	return errNotSimulated
}

// Apply implements client.SubResourceWriter.
func (status) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return errNotSimulated
}

// Get implements client.SubResourceReader.
func (status) Get(context.Context, client.Object, client.Object, ...client.SubResourceGetOption) error {
	return errNotSimulated
}

// SubResource implements client.Client.
func (w *world) SubResource(string) client.SubResourceClient { return status{w} }

// Create implements client.Writer.
func (w *world) Create(context.Context, client.Object, ...client.CreateOption) error {
	return errNotSimulated
}

// Update implements client.Writer.
func (w *world) Update(context.Context, client.Object, ...client.UpdateOption) error {
	return errNotSimulated
}

// DeleteAllOf implements client.Writer.
func (w *world) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	return errNotSimulated
}

// Scheme implements client.Client.
func (w *world) Scheme() *runtime.Scheme { return w.scheme }

// RESTMapper implements client.Client.
func (w *world) RESTMapper() meta.RESTMapper { return meta.NewDefaultRESTMapper(nil) }

// GroupVersionKindFor implements client.Client.
func (w *world) GroupVersionKindFor(o runtime.Object) (schema.GroupVersionKind, error) {
	return apiutil.GVKForObject(o, w.scheme)
}

// IsObjectNamespaced implements client.Client.
func (w *world) IsObjectNamespaced(runtime.Object) (bool, error) { return false, errNotSimulated }

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

// merge puts what is wanted over what is there; lists count as a whole.
func merge(content, wanted map[string]any) {
	for key, value := range wanted {
		want, isMap := value.(map[string]any)
		have, wasMap := content[key].(map[string]any)
		if isMap && wasMap {
			merge(have, want)
			continue
		}
		content[key] = value
	}
}

func anyMap(in map[string]string) map[string]any {
	out := map[string]any{}
	for key, value := range in {
		out[key] = value
	}
	return out
}
