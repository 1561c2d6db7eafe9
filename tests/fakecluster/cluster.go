// Package fakecluster is a cluster in memory, with the controller of every kind.
//
// Objects are stored in the fake client of controller-runtime. Beneath it a tracker adds the fields
// that an API server sets: UIDs, generations, creation timestamps, cluster IPs. Nothing runs in the
// background: the caller reconciles one object (Look) or all (Round), and collects garbage
// (Collect).
package fakecluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/controller"
	"switchyard.dev/reconcilers/inmemory"
	"switchyard.dev/reconcilers/kinds"
	"switchyard.dev/reconcilers/manager"
)

// Document is one object as JSON.
type Document = map[string]any

// Documents reads objects from YAML.
func Documents(text []byte) ([]Document, error) {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 1<<16)
	var out []Document
	for {
		var d Document
		err := decoder.Decode(&d)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read objects: %w", err)
		}
		if d != nil {
			out = append(out, d)
		}
	}
}

// Cluster is a cluster in memory.
type Cluster struct {
	// Client reads and writes the objects.
	Client client.Client

	tracker     *tracker
	controllers map[string]controller.Controller
	// known are all objects that controllers have reconciled, by kind: deleted ones must be
	// reconciled as well.
	known map[string][]client.ObjectKey
}

// New returns a Cluster with these objects and without controllers. now returns the time for
// creation timestamps. Documents that no decoder accepts are omitted, as the API server rejects
// them.
func New(now func() time.Time, objects ...Document) (*Cluster, error) {
	scheme, err := manager.Scheme()
	if err != nil {
		return nil, err
	}
	tracked := newTracker(scheme, now)
	builder, err := inmemory.NewBuilder(context.Background(), scheme)
	if err != nil {
		return nil, err
	}
	builder.WithObjectTracker(tracked).WithReturnManagedFields().WithInterceptorFuncs(inmemory.DryRuns(tracked.trials()))
	for _, d := range objects {
		if o, err := decode(scheme, d); err == nil {
			builder.WithObjects(o)
		}
	}
	return &Cluster{Client: builder.Build(), tracker: tracked}, nil
}

// Lead replaces the controllers by new ones without state, as when another process becomes the
// leader. c is their configuration; its clients are set to the client of the Cluster.
func (w *Cluster) Lead(c kinds.Config) (err error) {
	c.Client, c.Live = w.Client, w.Client
	w.known = map[string][]client.ObjectKey{}
	w.controllers, err = kinds.Controllers(c)
	if c.Workflows == nil { // Another program provides them, which is not part of a fake client.
		delete(w.controllers, crdv1.KindResource)
	}
	return err
}

// Taken returns what New takes of a document, as JSON: equal for documents that make no
// difference, and empty for one that no decoder takes.
func Taken(d Document) (string, error) {
	scheme, err := manager.Scheme()
	if err != nil {
		return "", err
	}
	o, err := decode(scheme, d)
	if err != nil {
		return "", nil
	}
	text, err := json.Marshal(o)
	return string(text), err
}

// decode returns an object in its own type, or why it cannot be one.
func decode(scheme *runtime.Scheme, d Document) (client.Object, error) {
	text, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	var head struct {
		APIVersion, Kind string
		Metadata         struct{ Name string }
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, err
	}
	for gvk := range scheme.AllKnownTypes() {
		if gvk.GroupVersion().String() != head.APIVersion || gvk.Kind != head.Kind || head.Metadata.Name == "" {
			continue
		}
		made, err := scheme.New(gvk)
		if err != nil {
			return nil, err
		}
		o, ok := made.(client.Object)
		if !ok {
			return nil, fmt.Errorf("%T is no object", made)
		}
		return o, json.Unmarshal(text, o)
	}
	return nil, fmt.Errorf("%s %q of %q is no object of a known kind with a name", head.Kind, head.Metadata.Name, head.APIVersion)
}

// Kinds returns the names of the kinds that have a controller, sorted.
func (w *Cluster) Kinds() []string { return slices.Sorted(maps.Keys(w.controllers)) }

// Writes returns how many writes there have been.
func (w *Cluster) Writes() int64 { return w.tracker.writes.Load() }

// List returns the custom resources of a kind, sorted by namespace and name.
func (w *Cluster) List(ctx context.Context, kind string) ([]client.Object, error) {
	of, ok := crdv1.KindCalled(kind)
	if !ok {
		return nil, fmt.Errorf("%s is no custom resource", kind)
	}
	return w.list(ctx, of.NewList())
}

func (w *Cluster) list(ctx context.Context, list client.ObjectList) ([]client.Object, error) {
	if err := w.Client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list %T: %w", list, err)
	}
	var out []client.Object
	err := meta.EachListItem(list, func(o runtime.Object) error {
		if item, ok := o.(client.Object); ok {
			out = append(out, item)
		}
		return nil
	})
	return out, err
}

// Panicked is a controller that did.
type Panicked struct {
	Value any
	Stack []byte
}

// Error returns the value of the panic and its stack.
func (p Panicked) Error() string { return fmt.Sprintf("panic: %v\n%s", p.Value, p.Stack) }

// Look reconciles one object with the controller of a kind. The error is a Panicked when it panics.
func (w *Cluster) Look(ctx context.Context, kind string, key client.ObjectKey) (result reconcile.Result, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = Panicked{r, debug.Stack()}
		}
	}()
	return w.controllers[kind].Reconcile(ctx, reconcile.Request{NamespacedName: key})
}

// Round reconciles all objects with their controllers, including deleted ones.
func (w *Cluster) Round(ctx context.Context) error {
	var errs []error
	for _, kind := range w.Kinds() {
		objects, err := w.List(ctx, kind)
		if err != nil {
			return err
		}
		for _, o := range objects {
			w.known[kind] = append(w.known[kind], client.ObjectKeyFromObject(o))
		}
		slices.SortFunc(w.known[kind], func(a, b client.ObjectKey) int { return strings.Compare(a.String(), b.String()) })
		w.known[kind] = slices.Compact(w.known[kind])
		for _, key := range w.known[kind] {
			if _, err := w.Look(ctx, kind, key); err != nil {
				errs = append(errs, fmt.Errorf("%s %s: %w", kind, key, err))
			}
		}
	}
	return errors.Join(errs...)
}
