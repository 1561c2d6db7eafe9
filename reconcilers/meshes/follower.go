package meshes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	"switchyard.dev/reconcilers/paged"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/routeserver/view"
)

// Kinds discovers optional kinds and watches their objects. *optional.Kinds implements it.
type Kinds interface {
	// Present reports whether the cluster has a kind, or an error if discovery failed.
	Present(ctx context.Context, kind schema.GroupKind) (bool, error)
	// Source returns a source of the events of a kind's objects.
	Source(kind schema.GroupKind, h handler.EventHandler, predicates ...predicate.Predicate) source.Source
}

// Config configures a Follower. Log, Client, Kinds, Asked and Elected are required.
type Config struct {
	// Log is the routing log.
	Log eventbus.Reader
	// Client reads from the caches, and writes.
	Client client.Client
	// Kinds watches the objects of the mesh; Watched are the kinds that trigger a sync.
	Kinds   Kinds
	Watched []schema.GroupKind
	// Asked is the kind of the MeshRoutes that the mesh implements.
	Asked string
	// Elected is closed once this process is the leader and may write objects of the mesh.
	Elected <-chan struct{}
	// Again receives each MeshRoute with a changed Report, once Elected. Sends block, so the channel
	// has to be drained from then on.
	Again chan<- event.GenericEvent
	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

// Sync syncs the mesh with a table: it computes the Reports, writes the objects that differ if this
// process is elected, and calls Notify. It returns the delay after which to sync again even without a
// change, zero for none.
type Sync func(ctx context.Context, t table.Table) time.Duration

// Follower follows the routing log with a view, as route servers do, so it has the same table as the
// sidecars and catches up after a restart. It syncs a mesh on each change, and enqueues the
// MeshRoutes with changed Reports. Create it with NewFollower and run Start.
type Follower struct {
	config Config
	kind   crdv1.Kind
	sync   Sync
	view   *view.View
	// stirred has a value while a sync is requested.
	stirred chan struct{}

	mu sync.Mutex
	// changed are the Targets with MeshRoutes to enqueue; wake wakes updateAll.
	changed map[Target]bool
	wake    wake.Signal
}

// NewFollower returns a Follower, or an error if the Config is invalid.
func NewFollower(c Config, s Sync) (*Follower, error) {
	if c.Log == nil || c.Client == nil || c.Kinds == nil || c.Elected == nil {
		return nil, errors.New("meshes: Log, Client, Kinds and Elected are all required")
	}
	c.Logger = cmp.Or(c.Logger, slog.Default())
	kind, known := crdv1.KindCalled(c.Asked)
	if !known {
		return nil, fmt.Errorf("meshes: there is no kind %q", c.Asked)
	}
	v, err := view.New(view.Config{Log: c.Log, Logger: c.Logger})
	if err != nil {
		return nil, err
	}
	return &Follower{config: c, kind: kind, sync: s, view: v, stirred: make(chan struct{}, 1), changed: map[Target]bool{}}, nil
}

// NeedLeaderElection returns false: the Follower runs on every replica, so a new leader is up to date.
func (*Follower) NeedLeaderElection() bool { return false }

// Bounds of the retry backoff.
const (
	FirstPause   = 100 * time.Millisecond
	LongestPause = 15 * time.Second
)

// NewPauses returns a rate limiter with exponential backoff per item, from FirstPause to
// LongestPause.
func NewPauses[T comparable]() workqueue.TypedRateLimiter[T] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[T](FirstPause, LongestPause)
}

// together is the delay from an event to the sync, which batches the facts of one sandbox. apart is
// the minimum delay from the end of one sync to the next, which limits the syncs of a burst of events.
const (
	together = 2 * time.Millisecond
	apart    = 20 * time.Millisecond
)

// Start syncs the mesh until ctx is done: when the routing table or an object of the mesh changes,
// when Stir is called, and after the delay that the last sync returned. It returns an error if a watch
// cannot be started.
func (f *Follower) Start(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer func() {
		stop()
		running.Wait()
	}()
	running.Go(func() {
		_ = f.view.Run(ctx) // It returns when ctx is done.
	})
	running.Go(func() { f.updateAll(ctx) })
	if err := f.listen(ctx, &running); err != nil {
		return fmt.Errorf("watch what meshes read: %w", err)
	}
	for {
		t, newer := f.view.Current()
		var again <-chan time.Time
		if t.Whole() {
			if after := f.sync(ctx, t); after > 0 {
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
		if !wake.Sleep(ctx, max(together, apart-time.Since(ended))) {
			return nil
		}
	}
}

// Stir requests a sync. It does not block.
func (f *Follower) Stir() {
	wake.Notify(f.stirred) // A sync is already requested.
}

// Elected reports whether this process may write, as the leader.
func (f *Follower) Elected() bool {
	select {
	case <-f.config.Elected:
		return true
	default:
		return false
	}
}

// listen requests a sync when an object of the mesh changes, or a kind is installed or removed. All
// events map to the same request, as each sync covers the whole mesh.
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

// Notify enqueues the MeshRoutes of Targets with a changed Report on Again. Before this process is
// elected it does nothing.
func (f *Follower) Notify(changed []Target) {
	if len(changed) == 0 || !f.Elected() {
		return // updateAll starts with all MeshRoutes once elected.
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range changed {
		f.changed[t] = true
	}
	f.wake.Send()
}

// updateAll enqueues MeshRoutes with changed Reports until ctx is done. It waits until this process is
// elected, and starts with all MeshRoutes.
func (f *Follower) updateAll(ctx context.Context) {
	select {
	case <-f.config.Elected:
		f.Stir() // As the leader, this process has to write any pending changes.
	case <-ctx.Done():
		return
	}
	pauses := NewPauses[bool]()
	for all := true; ; {
		next := f.wake.Next()
		f.mu.Lock()
		changed := f.changed
		f.changed = map[Target]bool{}
		f.mu.Unlock()
		var again <-chan time.Time
		err := f.updateThese(ctx, func(t Target) bool { return all || changed[t] })
		if all = err != nil; all && ctx.Err() == nil {
			f.config.Logger.Error("cannot update the status of mesh routes; retrying", "kind", f.config.Asked, "error", err)
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

// updateThese enqueues the MeshRoutes of the Targets for which these returns true.
func (f *Follower) updateThese(ctx context.Context, these func(Target) bool) error {
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

// EachRoute calls each for all IstioRoutes and GatewayAPIRoutes. It is not an error if the cluster
// does not have the kind GatewayAPIRoute, which earlier releases did not install.
func EachRoute(ctx context.Context, reader client.Reader, each func(crdv1.MeshRoute)) error {
	if err := paged.Each(ctx, reader, "", paged.Size, func(l *crdv1.IstioRouteList) {
		for i := range l.Items {
			each(&l.Items[i])
		}
	}); err != nil {
		return paged.MayNotList("istioroutes", "", err)
	}
	if err := paged.Each(ctx, reader, "", paged.Size, func(l *crdv1.GatewayAPIRouteList) {
		for i := range l.Items {
			each(&l.Items[i])
		}
	}); err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
		return paged.MayNotList("gatewayapiroutes", "", err)
	}
	return nil
}
