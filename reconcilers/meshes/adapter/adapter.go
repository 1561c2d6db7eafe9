package adapter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/wake"
	"switchyard.dev/routeserver/view"
)

// VirtualServices is the kind, in the version that all requests are converted to.
var VirtualServices = schema.GroupVersionKind{Group: "networking.istio.io", Version: "v1", Kind: "VirtualService"}

// Definition is the name of the CustomResourceDefinition of VirtualServices.
const Definition = "virtualservices.networking.istio.io"

// Kinds knows whether the cluster has a kind, and tells of its objects. *optional.Kinds does.
type Kinds interface {
	// Present reports whether the cluster has a kind; the error says why that is not known.
	Present(ctx context.Context, kind schema.GroupKind) (bool, error)
	// Source tells a queue of the objects of a kind.
	Source(kind schema.GroupKind, h handler.EventHandler, predicates ...predicate.Predicate) source.Source
}

// Config is what an Adapter needs. All fields but Again, Own, ClusterDomain
// (cluster.local without) and Logger are required.
type Config struct {
	Settings Settings
	// Log is the routing log, to follow.
	Log eventbus.Reader
	// Client reads from caches, VirtualServices too while there are such, and writes.
	Client client.Client
	// Kinds tells whether there are VirtualServices.
	Kinds Kinds
	// Elected is closed once this process may write VirtualServices.
	Elected <-chan struct{}
	// Again takes each IstioRoute whose Report has changed, once Elected. Somebody has to read
	// from it then.
	Again chan<- event.GenericEvent
	// Own is the user as whom managers write.
	Own string
	// ClusterDomain is that of Services.
	ClusterDomain string
	// Logger takes what happens; slog.Default() when it is nil.
	Logger *slog.Logger
}

// Validate names what is missing.
func (c Config) Validate() error {
	if c.Log == nil || c.Client == nil || c.Kinds == nil || c.Elected == nil {
		return errors.New("adapter: Log, Client, Kinds and Elected are all required")
	}
	return c.Settings.Validate()
}

// Adapter keeps the routes of sandboxes in VirtualServices. Make one with New, and run Start.
type Adapter struct {
	config Config
	view   *view.View
	// stirred has something when VirtualServices or Services have changed.
	stirred chan struct{}
	// reviews is as often free as there may be a further review at work.
	reviews *semaphore.Weighted

	// queue has the VirtualServices that are to be written.
	queue workqueue.TypedRateLimitingInterface[types.NamespacedName]

	mu sync.Mutex
	// began is when Start was called.
	began time.Time
	// state is nil before the first look.
	state *state
	// services are those that the newest look is about, from before it reads them.
	services map[types.NamespacedName]*wanted
	// written is what became of writes since.
	written map[types.NamespacedName]written
	// missed is when the webhook was last found not to put routes in, by namespace: some it is not
	// asked about.
	missed map[string]time.Time
	// changed are the Targets whose IstioRoutes have to be told.
	changed map[Target]bool
	// looked wakes who waits for the next look, and tell who tells IstioRoutes.
	looked, tell wake.Signal
}

// New returns an Adapter that knows nothing before it is started, or says what is wrong.
func New(c Config) (*Adapter, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.ClusterDomain = cmp.Or(c.ClusterDomain, "cluster.local")
	v, err := view.New(view.Config{Log: c.Log, Logger: c.Logger})
	if err != nil {
		return nil, err
	}
	return &Adapter{
		config: c, view: v, stirred: make(chan struct{}, 1), reviews: semaphore.NewWeighted(mostReviews),
		queue:   workqueue.NewTypedRateLimitingQueue(newPauses[types.NamespacedName]()),
		written: map[types.NamespacedName]written{}, missed: map[string]time.Time{}, changed: map[Target]bool{},
	}, nil
}

// NeedLeaderElection says that it runs on every replica: each serves the webhook.
func (*Adapter) NeedLeaderElection() bool { return false }

// Start keeps looking until ctx ends: at a change of the routing table, of a VirtualService,
// of a Service, and some time after something went wrong.
//
// VirtualServices are read and written where the chart gives the right to, while istio.enabled
// is true.
func (a *Adapter) Start(ctx context.Context) error {
	a.mu.Lock()
	a.began = time.Now()
	a.mu.Unlock()
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer func() {
		stop()
		running.Wait()
	}()
	running.Go(func() {
		_ = a.view.Run(ctx) // It returns when ctx ends.
	})
	running.Go(func() { a.tellAll(ctx) })
	if err := a.listen(ctx, &running); err != nil {
		return fmt.Errorf("watch VirtualServices: %w", err)
	}
	a.work(ctx, &running)
	pauses := newPauses[bool]()
	for {
		t, newer := a.view.Current()
		var again <-chan time.Time
		if t.Whole() {
			if a.look(ctx, t) {
				pauses.Forget(true)
			} else {
				again = time.After(pauses.When(true))
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-newer:
		case <-a.stirred:
		case <-again:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(together):
		}
	}
}

// firstLook bounds how long a process is not ready for want of a look: a routing log that is away
// does not keep what else it serves.
const firstLook = 10 * time.Second

// Ready returns why a VirtualService that is written now would lose its routes; nil when it would
// not, and from firstLook after Start.
func (a *Adapter) Ready() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state == nil && (a.began.IsZero() || time.Since(a.began) < firstLook) {
		return errors.New("the VirtualServices have not been looked at yet")
	}
	return nil
}

// together is how long a look waits for other events to come with the first.
const together = 20 * time.Millisecond

// stir has everything looked at again.
func (a *Adapter) stir() {
	select {
	case a.stirred <- struct{}{}:
	default: // It will be.
	}
}

// elected reports whether this process may write.
func (a *Adapter) elected() bool {
	select {
	case <-a.config.Elected:
		return true
	default:
		return false
	}
}

// Report returns what is known of a Target.
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
