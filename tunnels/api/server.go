package api

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/callers/scrapes"
	"switchyard.dev/eventbus/callers/streams"
	"switchyard.dev/eventbus/trust"
	"switchyard.dev/eventbus/wake"
	crdv1 "switchyard.dev/protos/crd/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
)

// maxRequest bounds a request, in bytes: the longest has 256 names of namespaces.
const maxRequest = 128 << 10

// stopWithin is how long calls under way are waited for at the end.
const stopWithin = 3 * time.Second

// server implements the API.
type server struct {
	tunnelv1.UnimplementedTunnelAPIServer
	cfg      Config
	cache    cache.Cache
	services *services
	// sandboxes is sent when a sandbox, or an object created for one, changed.
	sandboxes wake.Signal
	// requests bounds the calls that each user has under way.
	requests *callers.Pool
	// streams bounds the streams of each user.
	streams *callers.Pool
	// open bounds the calls that take no token, from each address that is a caller.
	open *callers.Pool
	// unnamed bounds the streams that take no token: from each address that is a caller, and all.
	unnamed  *callers.Pool
	calls    *prometheus.CounterVec
	known    func(remote, user string)
	stopping chan struct{}
	// ready reports whether the caches have synced.
	ready atomic.Bool
}

// Main is tunnel-api. Make one with New.
type Main struct {
	cfg        Config
	server     *server
	grpc       *grpc.Server
	health     *health.Server
	onAPI, onM *callers.Listener
}

// New opens the listeners and makes everything ready to Run. The caller calls Run or Close.
func New(cfg Config) (*Main, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &server{
		cfg: cfg, services: newServices(cfg.Operator.ClusterDomain), stopping: make(chan struct{}),
		requests: callers.NewPool("calls", callers.Bounds{Each: 8, Pods: 128, Rate: 10, Burst: 50}),
		open:     callers.NewPool("calls", callers.Bounds{Each: 8, Strangers: callers.AnyNumber, Rate: 20, Burst: 100}),
		unnamed:  callers.NewPool("streams without a token", callers.Bounds{Each: 8, Strangers: 256}),
		streams:  callers.NewPool("watches", callers.Bounds{Each: 16, Pods: 1024, Rate: 2, Burst: 32}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "switchyard_tunnelapi_calls_total", Help: "Calls of workstations and others, by method and status code; streams as they end.",
		}, []string{"method", "code"}),
	}
	m := &Main{cfg: cfg, server: s, health: health.NewServer()}
	m.grpc = grpc.NewServer(streams.Server{
		Credentials: trust.ServerCredentials(cfg.TLS.Server(), cfg.AcceptPlain), MaxRequest: maxRequest, MaxHeaders: 64 << 10,
		Idle: 15 * time.Minute, Within: answerWithin, Calls: s.calls,
	}.Options(grpc.ChainStreamInterceptor(s.boundedStream))...)
	tunnelv1.RegisterTunnelAPIServer(m.grpc, s)
	healthv1.RegisterHealthServer(m.grpc, m.health)
	if cfg.Reflection {
		reflection.Register(m.grpc)
	}
	m.serves(false)
	if err := cfg.Metrics.Register(s.calls); err != nil {
		return nil, fmt.Errorf("tunnel-api: %w", err)
	}
	var err error
	if s.cache, err = watched(cfg); err != nil {
		return nil, err
	}
	for _, one := range []struct {
		name, address string
		listener      **callers.Listener
	}{{"api", cfg.Address, &m.onAPI}, {"metrics", cfg.MetricsAddress, &m.onM}} {
		l, err := callers.Listen(one.address, one.name, cfg.MaxConnections, callers.WriteWithin, cfg.Logger)
		if err == nil {
			*one.listener = l
			err = l.CountClosed(cfg.Metrics, "switchyard_tunnelapi_connections_closed_total", prometheus.Labels{"listener": one.name})
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("tunnel-api: %w", err), m.Close())
		}
	}
	m.onAPI.AwaitHandshakes()
	s.known = m.onAPI.IdentifyAs
	return m, nil
}

// watched returns the cache of the objects that the API reports.
//
// Its users owe the rights to list and watch Services, SignadotSandboxes,
// SignadotExternalWorkloads and Resources everywhere, and EndpointSlices in the operator's
// namespace.
func watched(cfg Config) (cache.Cache, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), discoveryv1.AddToScheme(scheme), crdv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	known, err := cache.New(cfg.REST, cache.Options{Scheme: scheme, DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{&discoveryv1.EndpointSlice{}: {
			Namespaces: map[string]cache.Config{cfg.Namespace: {}}, Label: labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: proxyService}),
		}}})
	if err != nil {
		return nil, fmt.Errorf("tunnel-api: watch the cluster: %w", err)
	}
	return known, nil
}

// Address is where the API is served, as host:port.
func (m *Main) Address() string { return m.onAPI.Addr().String() }

// MetricsAddress is where metrics and health are served, as host:port.
func (m *Main) MetricsAddress() string { return m.onM.Addr().String() }

// Run serves until ctx ends and returns nil then, or until a part fails. It closes the
// listeners. Call it once.
func (m *Main) Run(ctx context.Context) error {
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return m.cfg.TLS.Run(ctx) })
	all.Go(func() error { return m.server.cache.Start(ctx) })
	all.Go(func() error { return m.follow(ctx) })
	all.Go(func() error { return m.serve(ctx) })
	all.Go(func() error {
		return callers.ServeProbes(ctx, m.onM, scrapes.Mux(m.cfg.Metrics, func() string {
			if m.server.ready.Load() {
				return ""
			}
			return "the caches of cluster objects have not synced yet"
		}))
	})
	return all.Wait()
}

// serve serves the API. Watches are ended when ctx is.
func (m *Main) serve(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- m.grpc.Serve(m.onAPI) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve on %s: %w", m.Address(), err)
	case <-ctx.Done():
	}
	m.health.Shutdown()
	close(m.server.stopping)
	hard := time.AfterFunc(stopWithin, m.grpc.Stop)
	defer hard.Stop()
	m.grpc.GracefulStop()
	return nil
}

// follow records changes of the cluster, and sets ready once the caches have synced.
func (m *Main) follow(ctx context.Context) error {
	s := m.server
	note := func(any) { s.sandboxes.Send() }
	touched := toolscache.ResourceEventHandlerFuncs{AddFunc: note, UpdateFunc: func(_, o any) { note(o) }, DeleteFunc: note}
	set := func(o any) {
		if service, is := o.(*corev1.Service); is {
			s.services.set(service)
		}
	}
	services := toolscache.ResourceEventHandlerFuncs{AddFunc: set, UpdateFunc: func(_, o any) { set(o) }, DeleteFunc: func(o any) {
		if last, is := o.(toolscache.DeletedFinalStateUnknown); is {
			o = last.Obj
		}
		if service, is := o.(*corev1.Service); is {
			s.services.remove(types.NamespacedName{Namespace: service.Namespace, Name: service.Name})
		}
	}}
	for o, handler := range map[client.Object]toolscache.ResourceEventHandlerFuncs{
		&discoveryv1.EndpointSlice{}: s.cfg.Proxies.handler(), &corev1.Service{}: services, &crdv1.SignadotSandbox{}: touched, &crdv1.SignadotExternalWorkload{}: touched, &crdv1.Resource{}: touched,
	} {
		informer, err := s.cache.GetInformer(ctx, o)
		if err == nil {
			var added toolscache.ResourceEventHandlerRegistration
			if added, err = informer.AddEventHandler(handler); err == nil && !toolscache.WaitForCacheSync(ctx.Done(), added.HasSynced) {
				return nil
			}
		}
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("watch %T: %w", o, err)
		}
	}
	s.ready.Store(true)
	m.serves(true)
	m.cfg.Logger.Info("the caches have synced; serving", "address", m.Address())
	return nil
}

// serves sets in the health service whether the API is served.
func (m *Main) serves(is bool) {
	as := healthv1.HealthCheckResponse_NOT_SERVING
	if is {
		as = healthv1.HealthCheckResponse_SERVING
	}
	for _, name := range []string{"", tunnelv1.TunnelAPI_ServiceDesc.ServiceName} {
		m.health.SetServingStatus(name, as)
	}
}

// Close closes the listeners of a Main that is not run.
func (m *Main) Close() error { return callers.Close(m.onAPI, m.onM) }

// GetOperatorInfo implements tunnelv1.TunnelAPIServer.
func (s *server) GetOperatorInfo(ctx context.Context, _ *tunnelv1.GetOperatorInfoRequest) (*tunnelv1.GetOperatorInfoResponse, error) {
	leave, err := s.open.Enter(s.from(ctx))
	if err != nil {
		return nil, status.Error(codes.ResourceExhausted, err.Error())
	}
	defer leave()
	ranges, err := s.cfg.ranges()
	if err != nil {
		s.cfg.Logger.Error("cannot read the ranges that workstations may reach", "error", err)
		return nil, status.Error(codes.Unavailable, "the ranges that workstations may reach cannot be read: see the log of tunnel-api")
	}
	o := s.cfg.Operator
	return &tunnelv1.GetOperatorInfoResponse{Version: o.Version, GitCommit: o.GitCommit, BuildDate: o.BuildDate, ClusterDomain: o.ClusterDomain, Cidrs: ranges}, nil
}
