package meshes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/wake"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/controller"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/routeserver/view"
)

// Kinds knows whether the cluster has a kind, and tells of its objects. *optional.Kinds does.
type Kinds interface {
	// Present reports whether the cluster has a kind; the error says why that is not known.
	Present(ctx context.Context, kind schema.GroupKind) (bool, error)
	// Source tells a queue of the objects of a kind.
	Source(kind schema.GroupKind, h handler.EventHandler, predicates ...predicate.Predicate) source.Source
}

// Config is what a Follower needs. All fields but Again and Logger are required.
type Config struct {
	// Log is the routing log, to follow.
	Log eventbus.Reader
	// Client reads from caches, and writes.
	Client client.Client
	// Kinds tells of the objects of the mesh, and Watched are their kinds.
	Kinds   Kinds
	Watched []schema.GroupKind
	// Asked is the kind of what the mesh is asked for.
	Asked string
	// Elected is closed once this process may write objects of the mesh.
	Elected <-chan struct{}
	// Again takes each MeshRoute whose Report has changed, once Elected. Somebody has to read
	// from it then.
	Again chan<- event.GenericEvent
	// Logger takes what happens; slog.Default() when it is nil.
	Logger *slog.Logger
}

// Look brings everything into line with a table, writes what is not as it should be once Elected,
// and has Tell called. It returns after what time to look again though nothing has changed, zero
// for not at all.
type Look func(ctx context.Context, t table.Table) time.Duration

// Follower follows the routing log with a view, as route servers do, so it knows what sidecars
// know, and catches up from the table after a restart. It has a mesh looked at whenever
// something has changed, and tells MeshRoutes what came of it. Make one with NewFollower, and
// run Start.
type Follower struct {
	config Config
	kind   crdv1.Kind
	look   Look
	view   *view.View
	// stirred has something when objects have changed.
	stirred chan struct{}

	mu sync.Mutex
	// changed are the Targets whose MeshRoutes have to be told, and tell tells who does that.
	changed map[Target]bool
	tell    wake.Signal
}

// NewFollower returns a Follower that knows nothing before it is started, or says what is wrong.
func NewFollower(c Config, look Look) (*Follower, error) {
	if c.Log == nil || c.Client == nil || c.Kinds == nil || c.Elected == nil {
		return nil, errors.New("meshes: Log, Client, Kinds and Elected are all required")
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	kind, known := crdv1.KindCalled(c.Asked)
	if !known {
		return nil, fmt.Errorf("meshes: there is no kind %q", c.Asked)
	}
	v, err := view.New(view.Config{Log: c.Log, Logger: c.Logger})
	if err != nil {
		return nil, err
	}
	return &Follower{config: c, kind: kind, look: look, view: v, stirred: make(chan struct{}, 1), changed: map[Target]bool{}}, nil
}

// NeedLeaderElection says that it runs on every replica: a new leader knows everything at once.
func (*Follower) NeedLeaderElection() bool { return false }

// How long to wait after something went wrong.
const (
	FirstPause   = 100 * time.Millisecond
	LongestPause = 15 * time.Second
)

// NewPauses returns what says how long to wait after each failure in a row, from FirstPause to
// LongestPause.
func NewPauses[T comparable]() workqueue.TypedRateLimiter[T] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[T](FirstPause, LongestPause)
}

// together is how long a look waits for other events to come with the first: the facts of one
// sandbox. apart is how long it is at least from the end of one look to the next, so that a burst
// of events is few looks.
const (
	together = 2 * time.Millisecond
	apart    = 20 * time.Millisecond
)

// Start has the mesh looked at until ctx ends: at a change of the routing table, of an object of
// the mesh, whenever Stir is called, and when a look says so.
func (f *Follower) Start(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer func() {
		stop()
		running.Wait()
	}()
	running.Go(func() {
		_ = f.view.Run(ctx) // It returns when ctx ends.
	})
	running.Go(func() { f.tellAll(ctx) })
	if err := f.listen(ctx, &running); err != nil {
		return fmt.Errorf("watch what meshes read: %w", err)
	}
	for {
		t, newer := f.view.Current()
		var again <-chan time.Time
		if t.Whole() {
			if after := f.look(ctx, t); after > 0 {
				again = time.After(after)
			}
		}
		ended := time.Now()
		select {
		case <-ctx.Done():
			return nil
		case <-newer:
		case <-f.stirred:
		case <-again:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(together, apart-time.Since(ended))):
		}
	}
}

// Stir has everything looked at again.
func (f *Follower) Stir() {
	select {
	case f.stirred <- struct{}{}:
	default: // It will be.
	}
}

// Elected reports whether this process may write.
func (f *Follower) Elected() bool {
	select {
	case <-f.config.Elected:
		return true
	default:
		return false
	}
}

// listen has everything looked at again when an object of the mesh changes, or a kind comes or
// goes. All events are one: what concerns whom a look finds out.
func (f *Follower) listen(ctx context.Context, running *sync.WaitGroup) error {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	one := controller.Enqueue(func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{{}} })
	for _, kind := range f.config.Watched {
		if err := f.config.Kinds.Source(kind, one).Start(ctx, queue); err != nil {
			return err
		}
	}
	context.AfterFunc(ctx, queue.ShutDown)
	running.Go(func() {
		for {
			r, end := queue.Get()
			if end {
				return
			}
			f.Stir()
			queue.Done(r)
		}
	})
	return nil
}

// Tell has the MeshRoutes of some Targets told that something else is known of them, once this
// process is elected.
func (f *Follower) Tell(changed []Target) {
	if len(changed) == 0 || !f.Elected() {
		return // tellAll begins with all of them.
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range changed {
		f.changed[t] = true
	}
	f.tell.Send()
}

// tellAll tells MeshRoutes whose reports have changed, until ctx ends. It begins with all of
// them, once this process is elected.
func (f *Follower) tellAll(ctx context.Context) {
	select {
	case <-f.config.Elected:
		f.Stir() // What others were to write is to be written here now.
	case <-ctx.Done():
		return
	}
	pauses := NewPauses[bool]()
	for all := true; ; {
		next := f.tell.Next()
		f.mu.Lock()
		changed := f.changed
		f.changed = map[Target]bool{}
		f.mu.Unlock()
		var again <-chan time.Time
		err := f.tellThese(ctx, func(t Target) bool { return all || changed[t] })
		if all = err != nil; all && ctx.Err() == nil {
			f.config.Logger.Error("routes of meshes are not told what became of them; retrying", "kind", f.config.Asked, "error", err)
			next, again = nil, time.After(pauses.When(true))
		} else {
			pauses.Forget(true)
		}
		select {
		case <-next:
		case <-again:
		case <-ctx.Done():
			return
		}
	}
}

// tellThese has the MeshRoutes of some Targets looked at.
func (f *Follower) tellThese(ctx context.Context, these func(Target) bool) error {
	routes := f.kind.NewList()
	if err := f.config.Client.List(ctx, routes, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list them: %w", err)
	}
	return meta.EachListItem(routes, func(o runtime.Object) error {
		route, is := o.(crdv1.MeshRoute)
		if !is || !these(TargetOf(route)) {
			return nil
		}
		own, is := o.DeepCopyObject().(client.Object)
		if !is {
			return nil
		}
		select {
		case f.config.Again <- event.GenericEvent{Object: own}:
		case <-ctx.Done():
		}
		return ctx.Err()
	})
}
