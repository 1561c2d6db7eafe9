package meshtrial

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"switchyard.dev/reconcilers/meshes"
	"switchyard.dev/reconcilers/meshes/gatewayadapter"
	"switchyard.dev/reconcilers/meshes/istioadapter"
)

// world is the cluster as adapters of meshes read it: the objects of the Client, and those without a
// Go type, of meshes and policies, which are read once, with the changes of put and remove.
type world struct {
	client.Client
	config  Config
	objects map[identity]*object
	listed  map[schema.GroupKind]bool
	// wrote are the changed objects, in order.
	wrote []identity
	made  int
}

// identity names an object.
type identity struct {
	schema.GroupKind
	client.ObjectKey
}

// object is an object as it was read, and its present version; nil if it does not exist.
type object struct{ before, now *unstructured.Unstructured }

// Change is an object of a mesh that would be written.
type Change struct {
	Kind             string
	Name             client.ObjectKey
	Created, Deleted bool
}

// Changes returns the objects that would be written, in order.
func (m *Routers) Changes() (out []Change) {
	for _, id := range m.world.wrote {
		if o := m.world.objects[id]; o.before != nil || o.now != nil {
			out = append(out, Change{id.Kind, id.ObjectKey, o.before == nil, o.now == nil})
		}
	}
	return out
}

var _ meshes.Kinds = (*world)(nil)

// Source implements meshes.Kinds. Nothing is watched.
func (*world) Source(schema.GroupKind, handler.EventHandler, ...predicate.Predicate) source.Source {
	return nil
}

// Present implements meshes.Kinds.
func (w *world) Present(_ context.Context, kind schema.GroupKind) (bool, error) {
	_, err := w.mapping(kind)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	return err == nil, err
}

// mapping returns the version and the resource in which the cluster serves a kind.
func (w *world) mapping(kind schema.GroupKind) (*meta.RESTMapping, error) {
	if w.config.Mapper == nil {
		return nil, fmt.Errorf("no RESTMapper to find %s by", kind)
	}
	return w.config.Mapper.RESTMapping(kind)
}

// essential reports whether nothing is known of a mesh without the objects of a kind. The others,
// policies and Rollouts, only restrict which routes are derived.
func essential(kind schema.GroupKind) bool {
	for _, of := range []schema.GroupVersionKind{istioadapter.VirtualServices, gatewayadapter.HTTPRoutes, gatewayadapter.GRPCRoutes, gatewayadapter.ReferenceGrants} {
		if kind == of.GroupKind() {
			return true
		}
	}
	return false
}

// List lists objects without a Go type itself, and all others from the world.
func (w *world) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	into, is := list.(*unstructured.UnstructuredList)
	if !is {
		return w.Client.List(ctx, list, options...)
	}
	kind := into.GroupVersionKind().GroupKind()
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	if err := w.fetch(ctx, kind); err != nil {
		return err
	}
	var how client.ListOptions
	how.ApplyOptions(options)
	for id, o := range w.objects {
		if o.now != nil && id.GroupKind == kind && (how.Namespace == "" || how.Namespace == id.Namespace) {
			into.Items = append(into.Items, *o.now)
		}
	}
	slices.SortFunc(into.Items, func(a, b unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return nil
}

// fetch reads all objects of a kind, once.
func (w *world) fetch(ctx context.Context, kind schema.GroupKind) error {
	if w.listed[kind] {
		return nil
	}
	mapping, err := w.mapping(kind)
	var items []unstructured.Unstructured
	if err == nil {
		for _, namespace := range w.namespaces() {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(mapping.GroupVersionKind.GroupVersion().WithKind(kind.Kind + "List"))
			if err = w.config.Reader.List(ctx, list, client.InNamespace(namespace)); err != nil {
				break
			}
			items = append(items, list.Items...)
		}
	}
	switch {
	case apierrors.IsForbidden(err):
		unknown := "the routes of requests are not known: "
		if !essential(kind) {
			unknown = "their effect on the routes of sandboxes is not known: "
		}
		w.config.Note(fmt.Sprintf("objects of kind %s may not be listed, and %s%v", kind, unknown, err))
		if essential(kind) {
			return err
		}
	case err != nil && !meta.IsNoMatchError(err):
		return err
	}
	w.listed[kind] = true
	for i := range items {
		w.objects[identity{kind, client.ObjectKeyFromObject(&items[i])}] = &object{&items[i], &items[i]}
	}
	return nil
}

// namespaces returns the namespaces to list; an empty name is all.
func (w *world) namespaces() []string {
	if len(w.config.Namespaces) == 0 {
		return []string{""}
	}
	return w.config.Namespaces
}

// put writes an object of a mesh, as the only writer.
func (w *world) put(o client.Object) error {
	u, is := o.(*unstructured.Unstructured)
	if !is {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return err
		}
		u = &unstructured.Unstructured{Object: content}
	}
	gvk := kindOf(o)
	u = u.DeepCopy()
	u.SetGroupVersionKind(gvk)
	id := identity{gvk.GroupKind(), client.ObjectKeyFromObject(o)}
	w.made++
	u.SetResourceVersion(fmt.Sprint("dry-run-", w.made))
	u.SetGeneration(u.GetGeneration() + 1)
	if u.GetUID() == "" {
		u.SetUID(types.UID(fmt.Sprint("dry-run-", w.made)))
	}
	w.change(id, u)
	return nil
}

// remove deletes an object of a mesh.
func (w *world) remove(o client.Object) {
	w.change(identity{kindOf(o).GroupKind(), client.ObjectKeyFromObject(o)}, nil)
}

// change records a write.
func (w *world) change(id identity, now *unstructured.Unstructured) {
	if w.objects[id] == nil {
		w.objects[id] = &object{}
	}
	w.objects[id].now = now
	if !slices.Contains(w.wrote, id) {
		w.wrote = append(w.wrote, id)
	}
}

// kindOf returns the kind of an object of a mesh.
func kindOf(o client.Object) schema.GroupVersionKind {
	switch o.(type) {
	case *gatewayv1.HTTPRoute:
		return gatewayadapter.HTTPRoutes
	case *gatewayv1.GRPCRoute:
		return gatewayadapter.GRPCRoutes
	case *gatewayv1.BackendTLSPolicy:
		return gatewayadapter.BackendTLSPolicies
	}
	return o.GetObjectKind().GroupVersionKind()
}
