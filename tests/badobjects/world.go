package badobjects

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/controller"
	"switchyard.dev/reconcilers/inmemory"
	"switchyard.dev/reconcilers/kinds"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/reconcilers/member"
)

//go:embed testdata/world.yaml
var whole []byte

//go:embed testdata/unsupported.yaml
var unsupportedKinds []byte

// document is one object as JSON.
type document = map[string]any

// documents returns the objects of a world.
func documents(world []byte) ([]document, error) {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(world), 1<<16)
	var out []document
	for {
		var d document
		err := decoder.Decode(&d)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the world: %w", err)
		}
		out = append(out, d)
	}
}

// world is a cluster in memory, with every controller.
type world struct {
	client      client.Client
	controllers map[string]controller.Controller
}

// newWorld returns a world with these objects; those that no decoder takes are left
// out, which is what the API server does with them.
func newWorld(objects []document) (*world, error) {
	scheme, err := manager.Scheme()
	if err != nil {
		return nil, err
	}
	builder, err := inmemory.NewBuilder(context.Background(), scheme)
	if err != nil {
		return nil, err
	}
	for _, d := range objects {
		if o, ok := decode(scheme, d); ok {
			builder.WithObjects(o)
		}
	}
	w := &world{client: builder.Build()}
	return w, w.addControllers()
}

// decode returns an object in its own type; false when it cannot be one.
func decode(scheme *runtime.Scheme, d document) (client.Object, bool) {
	text, err := json.Marshal(d)
	if err != nil {
		return nil, false
	}
	var head struct {
		APIVersion, Kind string
		Metadata         struct{ Name string }
	}
	if json.Unmarshal(text, &head) != nil || head.Metadata.Name == "" {
		return nil, false
	}
	for gvk := range scheme.AllKnownTypes() {
		if gvk.GroupVersion().String() != head.APIVersion || gvk.Kind != head.Kind {
			continue
		}
		made, err := scheme.New(gvk)
		o, ok := made.(client.Object)
		if err != nil || !ok || json.Unmarshal(text, o) != nil {
			return nil, false
		}
		return o, true
	}
	return nil, false
}

// addControllers makes the real ones.
func (w *world) addControllers() error {
	controllers, err := kinds.Controllers(kinds.Config{
		Needs: member.Needs{
			Access: apply.Access{Client: w.client, Live: w.client, Now: func() time.Time {
				return time.Date(2026, 1, 2, 3, 5, 0, 0, time.UTC)
			}},
			Publisher: &log{},
		},
		OperatorNamespace: "signadot",
		Dial:              func(context.Context, string) error { return nil },
	})
	// That of this world is provided by another program, which the fake client does not tell.
	delete(controllers, crdv1.KindResource)
	w.controllers = controllers
	return err
}

// log takes every fact that can be written.
type log struct {
	mu  sync.Mutex
	seq uint64
}

// Put implements publish.Publisher.
func (l *log) Put(_ context.Context, f event.Fact) (event.Pos, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	_, err := event.Encode(f)
	return event.Pos{Epoch: "e", Seq: l.seq}, err
}

// Settle implements publish.Publisher.
func (*log) Settle(event.Key) {}

// rounds is how often every object is looked at: often enough for what a sandbox
// makes to be looked at as well.
const rounds = 2

// run has every controller look at every object of its kind, and says what went
// wrong: a panic, or an object about which nothing is said in the end. Errors are
// given to handle.
func (w *world) run(ctx context.Context, handle func(kind string, err error)) error {
	for range rounds {
		for _, kind := range slices.Sorted(maps.Keys(w.controllers)) {
			objects, err := w.list(ctx, kind)
			if err != nil {
				return err
			}
			for _, o := range objects {
				if err := w.look(ctx, kind, client.ObjectKeyFromObject(o)); err != nil {
					var p panicked
					if errors.As(err, &p) {
						return err
					}
					handle(kind, err)
				}
			}
		}
	}
	return w.everythingIsSaid(ctx)
}

// list returns the objects of a kind.
func (w *world) list(ctx context.Context, kind string) ([]client.Object, error) {
	of, _ := crdv1.KindCalled(kind)
	list := of.NewList()
	if err := w.client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list %s: %w", kind, err)
	}
	var out []client.Object
	err := eachItem(list, func(o client.Object) { out = append(out, o) })
	return out, err
}

// panicked is a controller that did.
type panicked struct {
	value any
	stack []byte
}

// Error says where.
func (p panicked) Error() string { return fmt.Sprintf("panic: %v\n%s", p.value, p.stack) }

// look reconciles one object.
func (w *world) look(ctx context.Context, kind string, key client.ObjectKey) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = panicked{r, debug.Stack()}
		}
	}()
	_, err = w.controllers[kind].Reconcile(ctx, reconcile.Request{NamespacedName: key})
	return err
}

// everythingIsSaid names an object that has not every condition of its kind.
func (w *world) everythingIsSaid(ctx context.Context) error {
	for kind := range w.controllers {
		objects, err := w.list(ctx, kind)
		if err != nil {
			return err
		}
		for _, o := range objects {
			c, ok := o.(crdv1.Conditioned)
			if !ok || o.GetDeletionTimestamp() != nil {
				continue
			}
			for _, t := range c.ConditionTypes() {
				if crdv1.FindCondition(*c.StatusConditions(), t) == nil {
					return fmt.Errorf("%s %s/%s has no condition %s", kind, o.GetNamespace(), o.GetName(), t)
				}
			}
		}
	}
	return nil
}
