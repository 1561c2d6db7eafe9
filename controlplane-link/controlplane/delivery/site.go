package delivery

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

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
	"switchyard.dev/controlplane-link/server"
	crdv1 "switchyard.dev/protos/crd/v1"
	linkv1 "switchyard.dev/protos/gen/link/v1"
)

const (
	// workers is how many objects of a cluster are reconciled at once.
	workers = 4
	// firstRetry and longestRetry bound the back-off after an error.
	firstRetry, longestRetry = 50 * time.Millisecond, 30 * time.Second
	// within bounds a reconciliation, and moment is how long changes of sandboxes are collected before
	// route groups are reconciled.
	within, moment = 30 * time.Second, 100 * time.Millisecond
)

// request is an object to reconcile. Without a name it is all of a kind, without a kind everything.
type request struct {
	kind store.Kind
	name string
}

var everything, groups = request{}, request{kind: store.RouteGroup}

// site delivers to one cluster during one session of its agent.
type site struct {
	*Delivery
	agent *server.Agent
	ctx   context.Context //nolint:containedctx // that of the session
	stop  context.CancelFunc
	cache cache.Cache
	// live reads as the control plane itself.
	live client.Client

	mu      sync.Mutex
	queue   workqueue.TypedRateLimitingInterface[request] // nil before it runs
	clients map[model.Author]client.Client
	pools   []*http.Transport
	// written are the generations that were written last, by the object: a cache may lag behind.
	written map[request]int64
	// warned are the objects that were logged as newer.
	warned map[request]int64
}

func (d *Delivery) newSite(ctx context.Context, a *server.Agent) *site {
	s := &site{Delivery: d, agent: a, clients: map[model.Author]client.Client{}, written: map[request]int64{}, warned: map[request]int64{}}
	s.ctx, s.stop = context.WithCancel(ctx)
	return s
}

// run delivers until the session ends. A controller ends early if its watches do not start, as while the API
// server is away.
func (s *site) run() {
	defer s.stop()
	defer context.AfterFunc(s.ctx, s.disconnect)()
	go func() {
		select {
		case <-s.agent.Done():
			s.stop()
		case <-s.ctx.Done():
		}
	}()
	for s.ctx.Err() == nil {
		if err := s.deliver(); err != nil && s.ctx.Err() == nil {
			s.Logger.Warn("a cluster is not synchronised", "cluster", s.agent.Cluster.Name, "error", err)
			select {
			case <-time.After(time.Second):
			case <-s.ctx.Done():
			}
		}
	}
	s.disconnect()
}

// disconnect closes the connections through the session.
func (s *site) disconnect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pool := range s.pools {
		pool.CloseIdleConnections()
	}
}

// deliver runs the watches and the reconciler.
func (s *site) deliver() error {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	var err error
	if s.live, err = s.as(model.Author{}); err != nil {
		return err
	}
	if s.cache, err = cache.New(&rest.Config{Host: host}, cache.Options{
		HTTPClient: s.http(nil), Scheme: scheme, Mapper: mapper, ReaderFailOnMissingInformer: true, DefaultTransform: strip,
	}); err != nil {
		return err
	}
	c, err := controller.NewTypedUnmanaged("delivery", controller.TypedOptions[request]{
		Reconciler: reconcile.TypedFunc[request](s.reconcile), MaxConcurrentReconciles: workers, ReconciliationTimeout: within,
		RateLimiter:        workqueue.NewTypedItemExponentialFailureRateLimiter[request](firstRetry, longestRetry),
		SkipNameValidation: new(true),
	})
	if err == nil {
		err = errors.Join(
			c.Watch(watch(s.cache, &crdv1.SignadotSandbox{}, store.Sandbox)),
			c.Watch(watch(s.cache, &crdv1.SignadotRouteGroup{}, store.RouteGroup)),
			c.Watch(source.TypedFunc[request](func(_ context.Context, queue workqueue.TypedRateLimitingInterface[request]) error {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.queue = queue
				queue.Add(everything)
				return nil
			})),
		)
	}
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() {
		defer cancel()
		failed <- s.cache.Start(ctx)
	}()
	err = c.Start(ctx)
	cancel()
	return errors.Join(err, <-failed)
}

// watch is the source of events of a kind.
func watch[O client.Object](c cache.Cache, o O, kind store.Kind) source.TypedSource[request] {
	return source.TypedKind(c, o, handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, o O) []request {
		return []request{{kind, o.GetName()}}
	}))
}

// enqueue adds a request; a site that does not run yet reads everything when it does.
func (s *site) enqueue(r request) { s.add(r, 0) }

// later adds a request after a moment, once for several calls.
func (s *site) later(r request) { s.add(r, moment) }

func (s *site) add(r request, after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queue != nil {
		s.queue.AddAfter(r, after)
	}
}

// host is where a transport of the link finds the API of a cluster.
const host = "http://kubernetes"

var scheme, mapper = kinds()

// kinds has the kinds that are delivered: no cluster is asked for them.
func kinds() (*runtime.Scheme, meta.RESTMapper) {
	s := runtime.NewScheme()
	if err := crdv1.AddToScheme(s); err != nil {
		panic(fmt.Sprintf("the kinds of %s: %v", crdv1.Group, err)) // constants
	}
	m := meta.NewDefaultRESTMapper(nil)
	for kind, resource := range map[string]string{crdv1.KindSandbox: "signadotsandboxes", crdv1.KindRouteGroup: "signadotroutegroups", crdv1.KindResource: "resources"} {
		of := crdv1.GroupVersion()
		m.AddSpecific(of.WithKind(kind), of.WithResource(resource), of.WithResource(strings.ToLower(kind)), meta.RESTScopeRoot)
	}
	return s, m
}

// http returns a client with connections of its own to the API of the cluster.
func (s *site) http(caller *linkv1.Caller) *http.Client {
	pool := s.Server.Transport(s.agent.Cluster, caller)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pools = append(s.pools, pool)
	return &http.Client{Transport: pool}
}

// as returns the client of an author; the zero Author is the control plane itself.
func (s *site) as(author model.Author) (client.Client, error) {
	s.mu.Lock()
	known := s.clients[author]
	s.mu.Unlock()
	if known != nil {
		return known, nil
	}
	c, err := newClient(s.http(callerOf(author)))
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients[author] = c
	return c, nil
}

func newClient(through *http.Client) (client.Client, error) {
	return client.New(&rest.Config{Host: host, QPS: -1, WarningHandler: rest.NoWarnings{}}, client.Options{HTTPClient: through, Scheme: scheme, Mapper: mapper})
}

// callerOf returns an author as the agent knows it; nil is the control plane itself.
func callerOf(author model.Author) *linkv1.Caller {
	switch author.Kind {
	case model.KindUser, model.KindServiceAccount:
	default:
		return nil
	}
	c := &linkv1.Caller{Name: author.Name}
	if c.Name == "" {
		c.Name = author.ID
	}
	if author.Role != "" {
		c.Roles = []string{string(author.Role)}
	}
	return c
}
