package dryrun

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/inmemory"
)

// identity names one object of the world.
type identity struct {
	schema.GroupKind
	client.ObjectKey
}

func (id identity) object() Object {
	return Object{Kind: id.Kind, Namespace: id.Namespace, Name: id.Name}
}

// world is a cluster as a controller's client sees it: the objects of the caller's reader, overlaid
// with those written in memory. It is not safe for concurrent use.
type world struct {
	// Client is the client of the controllers. It reads and writes the store; objects are copied from
	// the reader into the store before they are first used.
	client.Client
	store      testing.ObjectTracker
	reader     client.Reader
	scheme     *runtime.Scheme
	namespaces []string
	now        time.Time

	// read has the objects from the reader (nil if missing), listed the completed lists.
	read   map[identity]client.Object
	listed map[string]bool
	// written are the written objects; nil for deleted ones. wrote has them in order.
	written map[identity]client.Object
	wrote   []identity
	// asking sends dry-run writes to the API server, unless it has no client. answers caches its
	// replies by document, and unknown are the checks that were not possible.
	asking  asking
	answers map[string]answer
	unknown []string
	// made counts the objects that are new.
	made int
	// changed is called after each write with the object before (nil if it did not exist) and after
	// (nil if it was deleted).
	changed func(id identity, before, after client.Object)
}

func newWorld(ctx context.Context, c Config, scheme *runtime.Scheme, now time.Time) (*world, error) {
	w := &world{
		reader: c.Reader, scheme: scheme, namespaces: c.Namespaces, now: now,
		read: map[identity]client.Object{}, listed: map[string]bool{}, written: map[identity]client.Object{},
		asking: asking{c.Client, crdv1.FieldManager}, answers: map[string]answer{},
		changed: func(identity, client.Object, client.Object) {},
		store:   inmemory.NewTracker(scheme),
	}
	b, err := inmemory.NewBuilder(ctx, scheme)
	if err != nil {
		return nil, err
	}
	w.Client = b.WithObjectTracker(w.store).WithReturnManagedFields().WithInterceptorFuncs(interceptor.Funcs{
		Get: w.get, List: w.list, Create: w.create, Update: w.update, Apply: w.apply,
		Patch: w.patch, SubResourcePatch: w.patchStatus, Delete: w.delete,
	}).Build()
	return w, nil
}

// get reads an object into the store, and from there.
func (w *world) get(ctx context.Context, store client.WithWatch, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	gvk, err := apiutil.GVKForObject(into, w.scheme)
	if err == nil {
		err = w.fetch(ctx, gvk, identity{gvk.GroupKind(), key})
	}
	if err != nil {
		return err
	}
	return store.Get(ctx, key, into)
}

// find returns the object in this world; nil if it does not exist.
func (w *world) find(ctx context.Context, gvk schema.GroupVersionKind, key client.ObjectKey) (client.Object, error) {
	if err := w.fetch(ctx, gvk, identity{gvk.GroupKind(), key}); err != nil {
		return nil, err
	}
	resource, _ := meta.UnsafeGuessKindToResource(gvk)
	o, err := w.store.Get(resource, key.Namespace, key.Name)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	out, ok := o.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%T is not an object", o)
	}
	return out, nil
}

// current returns the present version of an object that was read before; nil if it does not exist or
// was never read. The caller must not modify it.
func (w *world) current(id identity) client.Object {
	if o, ok := w.written[id]; ok {
		return o
	}
	return w.read[id]
}

// all returns the objects of a kind without a namespace, by name. The caller must not modify them.
func (w *world) all(ctx context.Context, gvk schema.GroupVersionKind) ([]client.Object, error) {
	if err := w.fetchList(ctx, gvk, "", nil); err != nil {
		return nil, err
	}
	var all []client.Object
	for id := range w.read { // Written objects were read before.
		if o := w.current(id); o != nil && id.GroupKind == gvk.GroupKind() {
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b client.Object) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return all, nil
}

// fetch reads an object into the store, once.
func (w *world) fetch(ctx context.Context, gvk schema.GroupVersionKind, id identity) error {
	if _, ok := w.read[id]; ok {
		return nil
	}
	o, err := blank(w.scheme, gvk)
	if err != nil {
		return err
	}
	switch err := w.reader.Get(ctx, id.ObjectKey, o); {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err), dispensable(gvk) && apierrors.IsForbidden(err):
		w.read[id] = nil
		return nil
	case err != nil:
		return fmt.Errorf("read %s: %w", id.object(), err)
	}
	w.read[id] = o
	return w.store.Add(o)
}

// list lists from the store, after the objects were copied into it.
func (w *world) list(ctx context.Context, store client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
	o := client.ListOptions{}
	o.ApplyOptions(options)
	gvk, err := apiutil.GVKForObject(list, w.scheme)
	if err != nil {
		return err
	}
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	for _, namespace := range w.within(gvk, o.Namespace) {
		if err := w.fetchList(ctx, gvk, namespace, o.LabelSelector); err != nil {
			return err
		}
	}
	return store.List(ctx, list, options...)
}

// within returns the namespaces to list: where the operator sees some only, a list
// over all of them is one of each.
func (w *world) within(gvk schema.GroupVersionKind, namespace string) []string {
	if namespace != "" || len(w.namespaces) == 0 || gvk.Group == crdv1.GroupVersion().Group && !crdv1.Namespaced(gvk.Kind) {
		return []string{namespace}
	}
	return w.namespaces
}

// fetchList copies the objects that the reader lists into the store, each list once.
func (w *world) fetchList(ctx context.Context, gvk schema.GroupVersionKind, namespace string, selector labels.Selector) error {
	options := []client.ListOption{client.InNamespace(namespace)}
	key := gvk.Kind + "/" + namespace
	if selector != nil {
		options = append(options, client.MatchingLabelsSelector{Selector: selector})
		key += "/" + selector.String()
	}
	if w.listed[key] {
		return nil
	}
	list, err := blankList(w.scheme, gvk)
	if err != nil {
		return err
	}
	if err := w.reader.List(ctx, list, options...); dispensable(gvk) && (meta.IsNoMatchError(err) || apierrors.IsForbidden(err)) {
		return nil
	} else if err != nil {
		return fmt.Errorf("list objects of kind %s: %w", strings.TrimSuffix(key, "/"), err)
	}
	w.listed[key] = true
	return meta.EachListItem(list, func(item runtime.Object) error {
		o, ok := item.(client.Object)
		if !ok {
			return fmt.Errorf("%T is not an object", item)
		}
		id := identity{gvk.GroupKind(), client.ObjectKeyFromObject(o)}
		if _, ok := w.read[id]; ok {
			return nil
		}
		w.read[id] = o
		return w.store.Add(o)
	})
}

// name names an object for messages.
func (w *world) name(o client.Object) string {
	kind := ""
	if gvk, err := apiutil.GVKForObject(o, w.scheme); err == nil {
		kind = gvk.Kind
	}
	return Object{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()}.String()
}

// dispensable reports whether a dry run continues for users who cannot read a kind. Most clusters have
// no Rollouts, and a Rollout that is a baseline is read by its name. NetworkPolicies only cause a
// condition. TrafficCaptures change no route.
func dispensable(gvk schema.GroupVersionKind) bool {
	return isRollout(gvk) || gvk == crdv1.GroupVersion().WithKind(crdv1.KindTrafficCapture) || gvk.GroupKind() == networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy").GroupKind()
}

// isRollout reports whether a kind is that of Argo Rollouts, which have no Go type.
func isRollout(gvk schema.GroupVersionKind) bool {
	return gvk.GroupKind() == baseline.RolloutKind().GroupKind()
}

// blankList returns an empty list of a kind.
func blankList(scheme *runtime.Scheme, gvk schema.GroupVersionKind) (client.ObjectList, error) {
	if isRollout(gvk) {
		return baseline.NewRolloutList(), nil
	}
	return empty[client.ObjectList](scheme, gvk.GroupVersion().WithKind(gvk.Kind+"List"))
}

// blank returns an empty object of a kind.
func blank(scheme *runtime.Scheme, gvk schema.GroupVersionKind) (client.Object, error) {
	if isRollout(gvk) {
		return baseline.NewRollout(), nil
	}
	return empty[client.Object](scheme, gvk)
}

// empty returns an empty object of a kind from the scheme, which has to be a T.
func empty[T any](scheme *runtime.Scheme, gvk schema.GroupVersionKind) (T, error) {
	made, err := scheme.New(gvk)
	if err != nil {
		return *new(T), err
	}
	out, ok := made.(T)
	if !ok {
		return out, fmt.Errorf("%T is no %T", made, new(T))
	}
	return out, nil
}

// kindOf returns the kind of an object, or why it cannot be asked about.
func kindOf(scheme *runtime.Scheme, o client.Object) (schema.GroupVersionKind, error) {
	gvk := o.GetObjectKind().GroupVersionKind()
	if _, ok := o.(*unstructured.Unstructured); !ok {
		var err error
		if gvk, err = apiutil.GVKForObject(o, scheme); err != nil {
			return gvk, fmt.Errorf("%w: %w", ErrNotSupported, err)
		}
	}
	if can := simulated(); gvk.GroupVersion() != crdv1.GroupVersion() || !slices.Contains(can, gvk.Kind) {
		return gvk, fmt.Errorf("%s %s (%s): %w; it is for %s",
			gvk.Kind, o.GetName(), gvk.GroupVersion(), ErrNotSupported, strings.Join(can, ", "))
	}
	return gvk, nil
}
