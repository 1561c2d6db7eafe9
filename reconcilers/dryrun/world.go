package dryrun

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
)

// identity names one object of the world.
type identity struct {
	schema.GroupKind
	client.ObjectKey
}

func (id identity) object() Object {
	return Object{Kind: id.Kind, Namespace: id.Namespace, Name: id.Name}
}

// world is a cluster as a controller's client sees it: what the caller's reader
// gives, and on top of it, in memory, what was written. One goroutine uses it.
type world struct {
	reader     client.Reader
	scheme     *runtime.Scheme
	namespaces []string
	now        time.Time

	// indexes gives the values by which objects of a kind are found.
	indexes map[schema.GroupKind]map[string]client.IndexerFunc
	// read is what the reader gave: objects (nil: there is none) and lists.
	read   map[identity]client.Object
	listed map[string][]client.Object
	// written are the objects that were written, as they are then; nil when they
	// were deleted. wrote has them in order.
	written map[identity]client.Object
	wrote   []identity
	// asking asks the API server, without a client nobody; answers are what it said to
	// each document, and unknown is what it could not be asked.
	asking  asking
	answers map[string]error
	unknown []string
	// made counts the objects that are new.
	made int
	// changed is told of each write: the object before (nil: there was none) and
	// after (nil: there is none any more).
	changed func(id identity, before, after client.Object)
}

var (
	_ client.Client       = (*world)(nil)
	_ client.FieldIndexer = (*world)(nil)
)

func newWorld(c Config, scheme *runtime.Scheme, now time.Time) *world {
	return &world{
		reader: c.Reader, scheme: scheme, namespaces: c.Namespaces, now: now,
		indexes: map[schema.GroupKind]map[string]client.IndexerFunc{},
		read:    map[identity]client.Object{}, listed: map[string][]client.Object{},
		written: map[identity]client.Object{},
		asking:  asking{c.Client, crdv1.FieldManager}, answers: map[string]error{},
		changed: func(identity, client.Object, client.Object) {},
	}
}

// IndexField implements client.FieldIndexer.
func (w *world) IndexField(_ context.Context, o client.Object, field string, extract client.IndexerFunc) error {
	gvk, err := apiutil.GVKForObject(o, w.scheme)
	if err != nil {
		return err
	}
	if w.indexes[gvk.GroupKind()] == nil {
		w.indexes[gvk.GroupKind()] = map[string]client.IndexerFunc{}
	}
	w.indexes[gvk.GroupKind()][field] = extract
	return nil
}

// Get implements client.Reader.
func (w *world) Get(ctx context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	gvk, err := apiutil.GVKForObject(into, w.scheme)
	if err != nil {
		return err
	}
	o, err := w.find(ctx, gvk, key)
	if err != nil {
		return err
	}
	return assign(into, o)
}

// find returns the object as it is in this world, which nobody may change, or a
// NotFound error.
func (w *world) find(ctx context.Context, gvk schema.GroupVersionKind, key client.ObjectKey) (client.Object, error) {
	id := identity{gvk.GroupKind(), key}
	o, ok := w.written[id]
	if !ok {
		var err error
		if o, err = w.base(ctx, gvk, id); err != nil {
			return nil, err
		}
	}
	if o == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, key.Name)
	}
	return o, nil
}

// base returns an object as the reader gives it; nil when there is none.
func (w *world) base(ctx context.Context, gvk schema.GroupVersionKind, id identity) (client.Object, error) {
	if o, ok := w.read[id]; ok {
		return o, nil
	}
	o, err := blank(w.scheme, gvk)
	if err != nil {
		return nil, err
	}
	switch err := w.reader.Get(ctx, id.ObjectKey, o); {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		o = nil
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", id.object(), err)
	}
	w.read[id] = o
	return o, nil
}

// List implements client.Reader.
func (w *world) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	o := client.ListOptions{}
	o.ApplyOptions(options)
	gvk, err := apiutil.GVKForObject(list, w.scheme)
	if err != nil {
		return err
	}
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	all, err := w.all(ctx, gvk, o)
	if err != nil {
		return err
	}
	out := make([]runtime.Object, 0, len(all))
	for _, item := range all {
		if ok, err := w.selects(gvk, item, o); err != nil {
			return err
		} else if ok {
			out = append(out, itemFor(list, item))
		}
	}
	return meta.SetList(list, out)
}

// all returns the objects of a kind in a namespace, by name: those that the reader
// gives and that were not written, and those that were.
func (w *world) all(ctx context.Context, gvk schema.GroupVersionKind, o client.ListOptions) ([]client.Object, error) {
	var all []client.Object
	for _, namespace := range w.within(gvk, o.Namespace) {
		items, err := w.list(ctx, gvk, namespace, o.LabelSelector)
		if err != nil {
			return nil, err
		}
		for _, item := range items {
			if _, ok := w.written[identity{gvk.GroupKind(), client.ObjectKeyFromObject(item)}]; !ok {
				all = append(all, item)
			}
		}
	}
	for id, item := range w.written {
		if item != nil && id.GroupKind == gvk.GroupKind() && (o.Namespace == "" || o.Namespace == id.Namespace) {
			all = append(all, item)
		}
	}
	slices.SortFunc(all, func(a, b client.Object) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return all, nil
}

// within returns the namespaces to list: where the operator sees some only, a list
// over all of them is one of each.
func (w *world) within(gvk schema.GroupVersionKind, namespace string) []string {
	if namespace != "" || len(w.namespaces) == 0 || gvk.Group == crdv1.GroupVersion().Group && !crdv1.IsMember(gvk.Kind) {
		return []string{namespace}
	}
	return w.namespaces
}

// list returns what the reader lists, each list once.
func (w *world) list(ctx context.Context, gvk schema.GroupVersionKind, namespace string, selector labels.Selector) ([]client.Object, error) {
	options := []client.ListOption{client.InNamespace(namespace)}
	key := gvk.Kind + "/" + namespace
	if selector != nil {
		options = append(options, client.MatchingLabelsSelector{Selector: selector})
		key += "/" + selector.String()
	}
	if items, ok := w.listed[key]; ok {
		return items, nil
	}
	list, err := blankList(w.scheme, gvk)
	if err != nil {
		return nil, err
	}
	if err := w.reader.List(ctx, list, options...); isRollout(gvk) && (meta.IsNoMatchError(err) || apierrors.IsForbidden(err)) {
		// Most clusters have none. Who may not list them may still ask about forks of
		// Deployments; a Rollout that is a baseline is read by its name.
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("list objects of kind %s: %w", strings.TrimSuffix(key, "/"), err)
	}
	var items []client.Object
	err = meta.EachListItem(list, func(o runtime.Object) error {
		item, ok := o.(client.Object)
		if !ok {
			return fmt.Errorf("%T is not an object", o)
		}
		items = append(items, item)
		return nil
	})
	w.listed[key] = items
	return items, err
}

// selects reports whether labels and indexes of an object are those that are asked
// for.
func (w *world) selects(gvk schema.GroupVersionKind, item client.Object, o client.ListOptions) (bool, error) {
	if o.LabelSelector != nil && !o.LabelSelector.Matches(labels.Set(item.GetLabels())) {
		return false, nil
	}
	if o.FieldSelector == nil {
		return true, nil
	}
	for _, r := range o.FieldSelector.Requirements() {
		extract, ok := w.indexes[gvk.GroupKind()][r.Field]
		if !ok {
			return false, fmt.Errorf("there is no index %s of %s", r.Field, gvk.Kind)
		}
		if !slices.Contains(extract(item), r.Value) {
			return false, nil
		}
	}
	return true, nil
}

// name names an object for messages.
func (w *world) name(o client.Object) string {
	kind := ""
	if gvk, err := apiutil.GVKForObject(o, w.scheme); err == nil {
		kind = gvk.Kind
	}
	return Object{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()}.String()
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

// empty returns what the scheme makes of a kind, which has to be a T.
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

// assign makes into a copy of an object, or of its metadata when that is all
// that into can hold.
func assign(into, o client.Object) error {
	if m, ok := into.(*metav1.PartialObjectMetadata); ok {
		itemMetadata(o).DeepCopyInto(m)
		return nil
	}
	to, from := reflect.ValueOf(into).Elem(), reflect.ValueOf(o.DeepCopyObject()).Elem()
	if to.Type() != from.Type() {
		return fmt.Errorf("a %T was asked for, and it is a %T", into, o)
	}
	to.Set(from)
	return nil
}

// itemFor returns a copy of an object as an item of the list.
func itemFor(list client.ObjectList, o client.Object) runtime.Object {
	if _, ok := list.(*metav1.PartialObjectMetadataList); ok {
		return itemMetadata(o).DeepCopy()
	}
	return o.DeepCopyObject()
}

// itemMetadata returns the metadata of an object, which are not copied.
func itemMetadata(o client.Object) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: o.GetName(), Namespace: o.GetNamespace(), UID: o.GetUID(), Generation: o.GetGeneration(),
		ResourceVersion: o.GetResourceVersion(), CreationTimestamp: o.GetCreationTimestamp(),
		DeletionTimestamp: o.GetDeletionTimestamp(), Labels: o.GetLabels(), Annotations: o.GetAnnotations(),
		OwnerReferences: o.GetOwnerReferences(), Finalizers: o.GetFinalizers(), ManagedFields: o.GetManagedFields(),
	}}
	m.SetGroupVersionKind(o.GetObjectKind().GroupVersionKind())
	return m
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
	if can := crdv1.Names(crdv1.SupportedKinds()); gvk.GroupVersion() != crdv1.GroupVersion() || !slices.Contains(can, gvk.Kind) {
		return gvk, fmt.Errorf("%s %s (%s): %w; it is for %s",
			gvk.Kind, o.GetName(), gvk.GroupVersion(), ErrNotSupported, strings.Join(can, ", "))
	}
	return gvk, nil
}
