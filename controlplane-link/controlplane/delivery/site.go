package delivery

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/registry"
	"switchyard.dev/controlplane-link/server"
	crdv1 "switchyard.dev/protos/crd/v1"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	"switchyard.dev/workflows/sandboxes"
)

const (
	// workers is how many objects of a cluster are reconciled at once.
	workers = 4
	// firstRetry and longestRetry bound the back-off after an error, and within a reconciliation.
	firstRetry, longestRetry, within = 50 * time.Millisecond, 30 * time.Second, 30 * time.Second
	// syncWithin is longer than a session: the watches start whenever the API server answers.
	syncWithin = 1000 * time.Hour
)

// request is an object to reconcile.
type request struct {
	kind store.Kind
	name string
}

// String is how people name it.
func (r request) String() string { return string(r.kind) + " " + r.name }

// everything are all objects of a cluster in queue, everyJob those in runnersQueue.
var everything, everyJob = request{kind: store.Everything}, request{kind: store.Everything, name: "jobs"}

// kinds are the kinds that are delivered.
var kinds = map[store.Kind]*sandboxes.Kind{store.Sandbox: &sandboxes.Sandboxes, store.RouteGroup: &sandboxes.Groups}

// site delivers to one cluster during one session of its agent.
type site struct {
	*Delivery
	at    registry.Cluster
	agent *server.Agent
	ctx   context.Context //nolint:containedctx // that of the session
	stop  context.CancelFunc
	cache cache.Cache
	// queue has sandboxes and route groups, runnersQueue jobs and runner groups, which a cluster can refuse to list.
	queue, runnersQueue workqueue.TypedRateLimitingInterface[request]
	// live reads as the control plane itself.
	live client.Client
	// clients are those of authors.
	clients sync.Map
	// seen has the names of jobs with an object, scales the state of runner groups, and collecting the names of
	// jobs that are collected in the background, by as many collectors as can be in its channel.
	seen, scales, collecting sync.Map
	collectors               chan struct{}
	background               sync.WaitGroup
	// beginning: an execution of a test begins, and counts the others.
	beginning sync.Mutex
}

func (d *Delivery) newSite(ctx context.Context, at registry.Cluster) (s *site, err error) {
	s = &site{Delivery: d, at: at, collectors: make(chan struct{}, collectors)}
	s.ctx, s.stop = context.WithCancel(ctx)
	s.queue, s.runnersQueue = newQueue(everything), newQueue(everyJob)
	if s.live, err = s.as(model.Author{}); err != nil {
		return nil, err
	}
	s.cache, err = cache.New(&rest.Config{Host: host}, cache.Options{
		HTTPClient: s.through(nil), Scheme: scheme, Mapper: mapper, DefaultTransform: cache.TransformStripManagedFields(),
	})
	return s, err
}

func newQueue(first request) workqueue.TypedRateLimitingInterface[request] {
	q := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[request](firstRetry, longestRetry))
	q.Add(first)
	return q
}

// add enqueues a request.
func (s *site) add(r request) { s.queueOf(r).Add(r) }

func (s *site) queueOf(r request) workqueue.TypedRateLimitingInterface[request] {
	if r.kind == store.Job || r.kind == store.RunnerGroup || r.kind == store.TestExecution || r == everyJob {
		return s.runnersQueue
	}
	return s.queue
}

// run delivers until the session ends.
func (s *site) run() {
	defer s.background.Wait()
	var all errgroup.Group
	for _, part := range []func() error{
		func() error { return s.cache.Start(s.ctx) },
		func() error {
			return s.deliver(s.queue, events(s.cache, &crdv1.SignadotSandbox{}, store.Sandbox), events(s.cache, &crdv1.SignadotRouteGroup{}, store.RouteGroup))
		},
		s.deliverJobs,
	} {
		all.Go(func() error {
			defer s.stop()
			return part()
		})
	}
	if err := all.Wait(); err != nil {
		s.Logger.Error("a cluster is not synchronised until its agent connects again", "organisation", s.at.Organisation, "cluster", s.at.Name, "error", err)
	}
}

// deliver reconciles the requests of a queue, and of the events of its kinds, until the session ends.
func (s *site) deliver(queue workqueue.TypedRateLimitingInterface[request], kinds ...source.TypedSource[request]) error {
	// controller-runtime logs each start at level 0, and a session is a start.
	log := logr.FromSlogHandler(s.Logger.Handler()).V(-int(slog.LevelDebug)).WithValues("organisation", s.at.Organisation, "cluster", s.at.Name)
	c, err := controller.NewTypedUnmanaged("delivery", controller.TypedOptions[request]{
		Reconciler: reconcile.TypedFunc[request](s.reconcile), MaxConcurrentReconciles: workers, ReconciliationTimeout: within, CacheSyncTimeout: syncWithin,
		NewQueue: func(string, workqueue.TypedRateLimiter[request]) workqueue.TypedRateLimitingInterface[request] {
			return queue
		},
		LogConstructor: func(r *request) logr.Logger {
			if r == nil {
				return log
			}
			return log.WithValues("kind", r.kind, "name", r.name)
		},
		SkipNameValidation: new(true), // each cluster has two
	})
	if err != nil {
		return err
	}
	for _, of := range kinds {
		if err := c.Watch(of); err != nil {
			return err
		}
	}
	return c.Start(s.ctx)
}

// events is the source of events of a kind.
func events[O client.Object](c cache.Cache, o O, kind store.Kind) source.TypedSource[request] {
	return source.TypedKind(c, o, handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, o O) []request {
		return []request{{kind, o.GetName()}}
	}))
}

// host is where a transport of the link finds the API of a cluster.
const host = "http://kubernetes"

var scheme, mapper = known()

// known returns the kinds that are used: no cluster is asked for them.
func known() (*runtime.Scheme, meta.RESTMapper) {
	s, m, of := runtime.NewScheme(), meta.NewDefaultRESTMapper(nil), crdv1.GroupVersion()
	if err := crdv1.AddToScheme(s); err != nil {
		panic(fmt.Sprintf("the kinds of %s: %v", crdv1.Group, err)) // they are constants
	}
	m.AddSpecific(of.WithKind(crdv1.KindSandbox), of.WithResource("signadotsandboxes"), of.WithResource("signadotsandbox"), meta.RESTScopeRoot)
	m.Add(of.WithKind(crdv1.KindRouteGroup), meta.RESTScopeRoot)
	m.Add(of.WithKind(crdv1.KindResource), meta.RESTScopeRoot)
	m.Add(of.WithKind(crdv1.KindJob), meta.RESTScopeRoot)
	m.Add(of.WithKind(crdv1.KindJobRunnerGroup), meta.RESTScopeNamespace)
	return s, m
}

// through returns a client with connections of its own through the session.
func (s *site) through(caller *linkv1.Caller) *http.Client {
	pool := s.Server.Transport(s.at, caller)
	context.AfterFunc(s.ctx, pool.CloseIdleConnections)
	return &http.Client{Transport: pool}
}

// as returns the client of an author; the zero Author is the control plane itself.
func (s *site) as(author model.Author) (client.Client, error) {
	if known, is := s.clients.Load(author); is {
		return known.(client.Client), nil
	}
	var caller *linkv1.Caller
	if author.Kind == model.KindUser || author.Kind == model.KindServiceAccount {
		caller = &linkv1.Caller{Name: cmp.Or(author.Name, author.ID)}
		if author.Role != "" {
			caller.Roles = []string{string(author.Role)}
		}
	}
	c, err := client.New(&rest.Config{Host: host, QPS: -1, WarningHandler: rest.NoWarnings{}}, client.Options{HTTPClient: s.through(caller), Scheme: scheme, Mapper: mapper})
	if err == nil {
		s.clients.Store(author, c)
	}
	return c, err
}
