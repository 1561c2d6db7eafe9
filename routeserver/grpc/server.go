package routesgrpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"switchyard.dev/eventbus/callers"
	routesv1 "switchyard.dev/protos/gen/routes"
	"switchyard.dev/routeserver/answers"
	"switchyard.dev/routeserver/door"
	"switchyard.dev/routeserver/table"
)

// Server serves the published routes API.
type Server struct {
	cfg      Config
	grpc     *grpc.Server
	health   *health.Server
	apis     []string // the names of the services; all share one health status
	feed     *feed
	stopping chan struct{}
}

// New returns a server that answers once Serve is called.
func New(cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	m, err := newMetrics(cfg.Metrics)
	if err != nil {
		return nil, fmt.Errorf("routesgrpc: register metrics: %w", err)
	}
	s := &Server{
		cfg: cfg, grpc: grpc.NewServer(append(options(cfg.Credentials), cfg.Entrance.Options(narrowed...)...)...), health: health.NewServer(),
		feed: newFeed(cfg.Tables, cfg.Pause), stopping: make(chan struct{}),
	}
	served := &routes{
		cfg: cfg, metrics: m, feed: s.feed, stopping: s.stopping,
		requests: answers.Requests(), watches: callers.NewPool("watches", callers.Alike(maxWatches, eachWatches)),
	}
	s.grpc.RegisterService(service(served), served)
	if cfg.Register != nil {
		cfg.Register(s.grpc)
	}
	s.apis = slices.Sorted(maps.Keys(s.grpc.GetServiceInfo()))
	healthv1.RegisterHealthServer(s.grpc, s.health)
	reflection.Register(s.grpc)
	return s, nil
}

// Serve serves on a listener until ctx ends, then ends watches with UNAVAILABLE, waits StopWithin
// for other calls to finish, and returns nil. Any other end is an error. Call it once; it closes
// the listener.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	s.setHealth(false)
	served := make(chan error, 1)
	go func() { served <- s.grpc.Serve(listener) }()
	go s.reportHealth(ctx)
	go s.feed.run(ctx)
	s.cfg.Logger.Info("serving the routes API over gRPC", "address", listener.Addr().String())
	select {
	case err := <-served:
		return fmt.Errorf("serve the routes API on %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	s.stop()
	return nil
}

func (s *Server) stop() {
	s.health.Shutdown()
	close(s.stopping)
	hard := time.AfterFunc(s.cfg.StopWithin, s.grpc.Stop)
	defer hard.Stop()
	s.grpc.GracefulStop()
}

// reportHealth reports SERVING from the first whole table on. It never goes back: the last whole
// table is served until there is a newer one.
func (s *Server) reportHealth(ctx context.Context) {
	for {
		t, newer := s.cfg.Tables.Current()
		if t.Whole() {
			s.setHealth(true)
			return
		}
		select {
		case <-newer:
		case <-ctx.Done():
			return
		}
	}
}

func (s *Server) setHealth(serving bool) {
	as := healthv1.HealthCheckResponse_NOT_SERVING
	if serving {
		as = healthv1.HealthCheckResponse_SERVING
	}
	for _, api := range append([]string{""}, s.apis...) {
		s.health.SetServingStatus(api, as)
	}
}

// Tables provides the newest table, and a channel that is closed when there is a newer one.
// A *view.View is one.
type Tables interface {
	Current() (table.Table, <-chan struct{})
}

// Services lists the services of the cluster.
type Services interface {
	// List returns every service that can be addressed, sorted by hostname. An
	// error means that they are not known at the moment.
	List(ctx context.Context) ([]*routesv1.ClusterService, error)
}

// Config is what a Server needs.
type Config struct {
	// Tables is where rules come from. Required.
	Tables Tables
	// Services answers GetClusterServices. Without it the call is UNIMPLEMENTED:
	// there is no cluster to list.
	Services Services
	// Register registers additional services on the same port. It is called before the server
	// accepts calls; reflection lists them. Default: none.
	Register func(grpc.ServiceRegistrar)
	// Entrance identifies callers. Default: all callers are anonymous, known by address.
	Entrance door.Entrance
	// Credentials secure connections. Default: plaintext.
	Credentials credentials.TransportCredentials
	// Logger receives the log of the server. Default: no logging.
	Logger *slog.Logger
	// Metrics gets the collectors of the server. Default: none.
	Metrics prometheus.Registerer
	// Pause is the minimum interval between two updates to watchers; changes within it are batched.
	// Default: 20 ms.
	Pause time.Duration
	// StopWithin is how long calls may take to end once the server stops.
	// Default: 5 s.
	StopWithin time.Duration
}

// Validate returns an error that describes the first invalid field of a Config, or nil.
func (c Config) Validate() error {
	switch {
	case c.Tables == nil:
		return errors.New("routesgrpc: Config.Tables is missing: give the view to serve")
	case c.StopWithin < 0, c.Pause < 0:
		return errors.New("routesgrpc: Config.StopWithin and Config.Pause must not be negative")
	}
	return nil
}

func (c Config) withDefaults() Config {
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	c.Pause = cmp.Or(c.Pause, 20*time.Millisecond)
	c.StopWithin = cmp.Or(c.StopWithin, 5*time.Second)
	return c
}

// options bound what a client can take, and let live clients live.
func options(secure credentials.TransportCredentials) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.Creds(secure), // nil: plain
		grpc.ForceServerCodecV2(newCodec()),
		// Published clients ping every ten seconds, also on an idle watch. The
		// default of grpc-go cuts them after three pings.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime:             5 * time.Second,
			PermitWithoutStream: true,
		}),
		// A client that disappeared without closing its connection is detected within 15 s.
		// Connections have no maximum age: closing a healthy watch would only make its client
		// reload everything.
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time:              10 * time.Second,
			Timeout:           5 * time.Second,
			MaxConnectionIdle: 15 * time.Minute,
		}),
		grpc.MaxConcurrentStreams(128),
		grpc.MaxHeaderListSize(32 << 10),
		grpc.ConnectionTimeout(5 * time.Second),
		// A request of the routes API is five names; one of our own API can hold the
		// facts of a dry run.
		grpc.MaxRecvMsgSize(1 << 20),
	}
}

type metrics struct {
	watchers prometheus.Gauge
	ops      *prometheus.CounterVec
	// of are the counters of ops, by op: a busy server counts many in a second.
	of map[routesv1.WatchOp]prometheus.Counter
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		watchers: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "switchyard_routes_watchers", Help: "Watches of the routes API that are open.",
		}),
		ops: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "switchyard_routes_ops_total", Help: "Ops sent to watchers of the routes API.",
		}, []string{"op"}),
		of: map[routesv1.WatchOp]prometheus.Counter{},
	}
	for op, name := range routesv1.WatchOp_name {
		m.of[routesv1.WatchOp(op)] = m.ops.WithLabelValues(name)
	}
	if registry == nil {
		return m, nil
	}
	return m, errors.Join(registry.Register(m.watchers), registry.Register(m.ops))
}

// watcher counts a watch until the returned function is called.
func (m *metrics) watcher() func() {
	m.watchers.Inc()
	return m.watchers.Dec
}

func (m *metrics) sent(op routesv1.WatchOp) { m.of[op].Inc() }
