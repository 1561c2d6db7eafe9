package istioadapter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/wake"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/meshes"
	"switchyard.dev/reconcilers/meshes/istio"
	"switchyard.dev/reconcilers/meshes/istioadapter/pacing"
	"switchyard.dev/reconcilers/meshes/istioadapter/rewrites"
	"switchyard.dev/reconcilers/policies"
	"switchyard.dev/routeserver/table"
)

// VirtualServices is the kind, in the version that all requests are converted to.
var VirtualServices = schema.GroupVersionKind{Group: "networking.istio.io", Version: "v1", Kind: "VirtualService"}

// Definition is the name of the CustomResourceDefinition of VirtualServices.
const Definition = "virtualservices.networking.istio.io"

// Config has the dependencies and settings of an Adapter. All fields but Again, Own, ClusterDomain
// (default cluster.local), Policies, RefusePolicies and Logger are required.
type Config struct {
	Settings Settings
	// Log is the routing log, to follow.
	Log eventbus.Reader
	// Client reads from caches, VirtualServices too while there are such, and writes.
	Client client.Client
	// Kinds reports whether there are VirtualServices.
	Kinds meshes.Kinds
	// Elected is closed once this process may write VirtualServices.
	Elected <-chan struct{}
	// Again receives the IstioRoutes with changed Reports, once Elected is closed. The caller must
	// drain it from then on.
	Again chan<- event.GenericEvent
	// Own is the user name of the managers' writes.
	Own string
	// ClusterDomain is that of Services.
	ClusterDomain string
	// Policies are kinds of policies that may name routes in Envoy's configuration, and Sidecars, which
	// may hide VirtualServices. Where
	// RefusePolicies is set no routes are derived from those that they name.
	Policies       []policies.Kind
	RefusePolicies bool
	// Logger logs writes and failures; slog.Default() if it is nil.
	Logger *slog.Logger
}

// Validate returns an error if a required field is missing or Settings are invalid.
func (c Config) Validate() error {
	if c.Log == nil || c.Client == nil || c.Kinds == nil || c.Elected == nil {
		return errors.New("istioadapter: Log, Client, Kinds and Elected are all required")
	}
	return c.Settings.Validate()
}

// Adapter keeps the routes of sandboxes in VirtualServices. Create one with New, and call Start.
type Adapter struct {
	*meshes.Follower
	config Config
	// reviews is as often free as there may be a further review at work.
	reviews *semaphore.Weighted
	// pauses is the backoff between failed syncs.
	pauses workqueue.TypedRateLimiter[bool]
	// rewrites are writes that removed routes.
	rewrites rewrites.Counter
	// queue has the VirtualServices to write.
	queue workqueue.TypedRateLimitingInterface[types.NamespacedName]

	mu sync.Mutex
	// began is when Start was called.
	began time.Time
	// state is nil before the first sync.
	state *state
	// services are those of the newest sync, set before it reads them.
	services map[types.NamespacedName]*istio.Service
	// written are the results of writes since the newest sync.
	written map[types.NamespacedName]written
	// missed is when the webhook was last found not to put routes in, by namespace: some it is not
	// asked about.
	missed map[string]time.Time
	// ruleQueue has the derived DestinationRules that are out of date, ruleFailures the errors of
	// failed writes, and ruleWrites the completed ones.
	ruleQueue    workqueue.TypedRateLimitingInterface[types.NamespacedName]
	ruleFailures map[types.NamespacedName]string
	ruleWrites   pacing.Writes
	// synced is sent after each sync.
	synced wake.Signal
}

// New returns an Adapter that is not started, or an error if the Config is invalid.
func New(c Config) (*Adapter, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.ClusterDomain = cmp.Or(c.ClusterDomain, "cluster.local")
	a := &Adapter{
		config: c, pauses: meshes.NewPauses[bool](), reviews: semaphore.NewWeighted(mostReviews),
		queue:     workqueue.NewTypedRateLimitingQueue(meshes.NewPauses[types.NamespacedName]()),
		ruleQueue: workqueue.NewTypedRateLimitingQueue(meshes.NewPauses[types.NamespacedName]()), ruleFailures: map[types.NamespacedName]string{},
		written: map[types.NamespacedName]written{}, missed: map[string]time.Time{},
	}
	var err error
	watched := []schema.GroupKind{VirtualServices.GroupKind(), DestinationRules.GroupKind(), baseline.RolloutKind().GroupKind()}
	for _, kind := range c.Policies {
		watched = append(watched, kind.GroupKind())
	}
	a.Follower, err = meshes.NewFollower(meshes.Config{
		Log: c.Log, Client: c.Client, Kinds: c.Kinds, Watched: watched,
		Asked: crdv1.KindIstioRoute, Elected: c.Elected, Again: c.Again, Logger: c.Logger,
	}, a.syncOrWait)
	return a, err
}

// Start syncs until ctx ends: after a change of the routing table, of a VirtualService or of a Service,
// and some time after a failure. It runs on every replica, since each serves the webhook.
//
// VirtualServices are read and written if the chart grants the rights, as while istio.enabled is true.
func (a *Adapter) Start(ctx context.Context) error {
	a.mu.Lock()
	a.began = time.Now()
	a.mu.Unlock()
	ctx, stop := context.WithCancel(ctx)
	var writing sync.WaitGroup
	defer func() {
		stop()
		writing.Wait()
	}()
	a.work(ctx, &writing)
	a.workRules(ctx, &writing)
	return a.Follower.Start(ctx)
}

// firstLook bounds how long a process is not ready before its first sync, so that an unavailable
// routing log does not keep it from serving other requests.
const firstLook = 10 * time.Second

// Ready returns why a VirtualService that is written now would lose its routes; nil when it would
// not, and from firstLook after Start.
func (a *Adapter) Ready() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state == nil && (a.began.IsZero() || time.Since(a.began) < firstLook) {
		return errors.New("the VirtualServices have not been synced yet")
	}
	return nil
}

// syncOrWait syncs, and returns the time until the next retry; zero for none.
func (a *Adapter) syncOrWait(ctx context.Context, t table.Table) time.Duration {
	if a.sync(ctx, t) {
		a.pauses.Forget(true)
		return 0
	}
	return a.pauses.When(true)
}

// Report returns the Report of a Target.
func (a *Adapter) Report(t Target) Report {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state == nil {
		return Report{Starting: true}
	}
	if r, known := a.state.reports[t]; known {
		return r
	}
	return Report{Trouble: a.state.trouble}
}

// Settled reports whether no VirtualService has a route for the routing key, or will have one.
func (a *Adapter) Settled(key string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state != nil && a.state.settled(key)
}

// ServiceChanged triggers a sync if the changed Service is the baseline Service of a sandbox, since
// routes depend on its ports.
func (a *Adapter) ServiceChanged(o any) {
	if gone, is := o.(toolscache.DeletedFinalStateUnknown); is {
		o = gone.Obj
	}
	s, ok := o.(*corev1.Service)
	if !ok {
		return
	}
	a.mu.Lock()
	_, concerned := a.services[client.ObjectKeyFromObject(s)]
	a.mu.Unlock()
	if concerned {
		a.Stir()
	}
}

const (
	// atOnce is the number of concurrent writes of VirtualServices. Each may wait for webhooks.
	atOnce = 8
	// missing is for how long the webhook is not counted on, once it has put no routes in.
	missing = time.Minute
)

// enqueue queues the writes of VirtualServices that are out of date. One that was just written and is
// still out of date is delayed. A failed write is already queued for its retry, and one that
// another client has changed waits for the cache.
func (a *Adapter) enqueue(s *state, w map[types.NamespacedName]written) {
	for id, k := range s.objects {
		of, tried := w[id]
		ended := tried && of.failed == ""
		switch {
		case !k.behind():
			a.queue.Forget(id)
		case ended && k.have.GetResourceVersion() == of.got.GetResourceVersion():
			a.queue.AddRateLimited(id)
		case k.status != StatusFailed && !k.lost:
			a.queue.Add(id)
		}
	}
}

// work writes VirtualServices until ctx ends.
func (a *Adapter) work(ctx context.Context, running *sync.WaitGroup) {
	context.AfterFunc(ctx, a.queue.ShutDown)
	for range atOnce {
		running.Go(func() { drain(ctx, a.queue, a.writeOne) })
	}
}

// drain writes the objects of a queue until it is shut down.
func drain(ctx context.Context, queue workqueue.TypedInterface[types.NamespacedName], write func(context.Context, types.NamespacedName)) {
	for {
		id, end := queue.Get()
		if end {
			return
		}
		write(ctx, id)
		queue.Done(id)
	}
}

// writeOne writes a VirtualService if it is out of date, and triggers a sync that reads the result.
func (a *Adapter) writeOne(ctx context.Context, id types.NamespacedName) {
	a.mu.Lock()
	k := a.state.objects[id]
	_, unseen := a.written[id]
	a.mu.Unlock()
	if unseen {
		a.queue.AddAfter(id, meshes.FirstPause) // The next sync decides whether a write is needed.
		return
	}
	if k == nil || !k.behind() || !a.Elected() {
		return
	}
	a.rulesFirst(ctx, k.concerns)
	w, err := a.write(ctx, k.have, k.rendering.Object)
	switch {
	case err == nil:
		a.config.Logger.Info("wrote the routes of a VirtualService", "namespace", id.Namespace, "name", id.Name)
	case ctx.Err() != nil:
		return
	case apierrors.IsConflict(err), apierrors.IsNotFound(err), errors.Is(err, context.Canceled):
		w.lost = true // The cache will hear of it.
	default:
		w.failed = fmt.Sprintf("VirtualService %s cannot be written: %v. Retrying.", id, err)
		a.config.Logger.Warn("a VirtualService cannot be written; retrying", "namespace", id.Namespace, "name", id.Name, "error", err)
		a.queue.AddRateLimited(id)
	}
	a.mu.Lock()
	a.written[id] = w
	a.mu.Unlock()
	a.Stir()
}
