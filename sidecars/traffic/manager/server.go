package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/callers/scrapes"
	"switchyard.dev/eventbus/callers/streams"
	"switchyard.dev/eventbus/callers/tokens"
	"switchyard.dev/eventbus/trust"
	"switchyard.dev/eventbus/wake"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/ring"
	"switchyard.dev/sidecars/traffic/ticket"
	"switchyard.dev/xds/identify"
)

const (
	maxConnections = 4096
	// maxBatch bounds a message: two bodies of 1 MiB, the most that a capture can request, and their headers. Containers know it.
	maxBatch = 4 << 20
	// minStore is the least size of a store: a batch is at most a quarter of its ring.
	minStore     = 5 * maxBatch
	answerWithin = 10 * time.Second
	stopWithin   = 3 * time.Second
	// syncEvery is how often the ring is synced, and compared with the captures of the cluster; saveEvery how often counts are saved.
	syncEvery, saveEvery = time.Second, 5 * time.Second
)

// Config configures a Main. Fields without a default are required, except TicketKeys, Readers and Always.
type Config struct {
	// REST reads and watches the cluster. TLS is the certificate to serve with. Namespace is that of traffic-manager; default:
	// signadot.
	REST      *rest.Config
	TLS       *trust.Folder
	Namespace string
	// TicketKeys returns the keys of tickets. Nil, and a result that is nil: no ticket is accepted.
	TicketKeys func() *ticket.Keys
	// Readers are accounts, as NAMESPACE:NAME, that can read all captures.
	Readers []string
	// Always is removed in all captures.
	Always Elision
	// Store is the folder of the ring and of the counts, and StoreBytes its size, of which the ring has seven eighths. Replica is
	// the name of this replica.
	Store      string
	StoreBytes int64
	Replica    string
	// Addresses to listen on, as host:port. Defaults: :7444, and :16001 for health and metrics.
	Address, HealthAddress string
	// Clock is the time. Default: time.Now.
	Clock   func() time.Time
	Logger  *slog.Logger
	Metrics *prometheus.Registry
}

func (c Config) withDefaults() Config {
	c.Address, c.HealthAddress = cmp.Or(c.Address, ":7444"), cmp.Or(c.HealthAddress, ":16001")
	c.Namespace = cmp.Or(c.Namespace, "signadot")
	c.Logger, c.Metrics = cmp.Or(c.Logger, slog.New(slog.DiscardHandler)), cmp.Or(c.Metrics, prometheus.NewRegistry())
	if c.Clock == nil {
		c.Clock = time.Now
	}
	return c
}

// Validate returns an error if a required field is missing.
func (c Config) Validate() error {
	if c.REST == nil || c.TLS == nil || c.Store == "" || c.StoreBytes < minStore || c.Replica == "" {
		return fmt.Errorf("traffic-manager: a required field of the Config is missing, or the store is smaller than %d bytes", minStore)
	}
	return nil
}

// server implements the services.
type server struct {
	trafficv1.UnimplementedSidecarsServer
	trafficv1.UnimplementedReadersServer
	cfg     Config
	cluster *cluster
	books   *books
	ring    *ring.Ring
	// storing has a lock for some of the pods.
	storing [64]sync.Mutex
	tokens  *tokens.Verifier
	forks   *identify.Identifier
	// checks bounds the reviews of tokens; the others the calls of each pod and reader.
	checks, attaches, delivers, reads *callers.Pool
	exchanges                         *prometheus.CounterVec
	known                             func(remote, user string)
	stopping                          chan struct{}
}

// Main is a replica of traffic-manager.
type Main struct {
	*server
	grpc        *grpc.Server
	on, onProbe *callers.Listener
}

// New opens the store and the listeners. The caller calls Run.
func New(cfg Config) (*Main, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	kube, err := kubernetes.NewForConfig(cfg.REST)
	if err != nil {
		return nil, fmt.Errorf("traffic-manager: %w", err)
	}
	s := &server{
		cfg: cfg, books: newBooks(cfg.Clock), stopping: make(chan struct{}),
		checks:   callers.NewPool("checks of tokens", callers.Bounds{Each: 4, Strangers: 16, Pods: 256, Rate: 5, Burst: 32}),
		attaches: callers.NewPool("attachments", callers.Bounds{Each: 4, Pods: maxConnections, Rate: 1, Burst: 10}),
		delivers: callers.NewPool("deliveries", callers.Bounds{Each: 4, Pods: maxConnections, Rate: 1, Burst: 10}),
		reads:    callers.NewPool("reads", callers.Bounds{Each: 16, Pods: 256, Rate: 10, Burst: 50}),
		exchanges: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "switchyard_traffic_exchanges_total", Help: "Exchanges that containers have delivered, by result: stored, repeated or refused.",
		}, []string{"result"}),
	}
	if s.cluster, err = watched(cfg.REST); err != nil {
		return nil, err
	}
	reviews := tokens.Config{Reviews: kube.AuthenticationV1().TokenReviews(), Audience: Audience, Keys: tokens.PublishedKeys(kube.Discovery().RESTClient()), Clock: cfg.Clock}
	if s.tokens, err = tokens.New(reviews); err != nil {
		return nil, err
	}
	if s.forks, err = identify.New(identify.Config{Verify: s.verify, Pods: kube.CoreV1(), ReplicaSets: kube.AppsV1()}); err != nil {
		return nil, err
	}
	if err := s.open(); err != nil {
		return nil, err
	}
	m := &Main{server: s}
	return m, m.listen()
}

// open opens the store.
func (s *server) open() (err error) {
	stored := numbers{}
	s.ring, err = ring.Open(ring.Config{Dir: s.cfg.Store, Bytes: s.cfg.StoreBytes / 8 * 7, Loaded: stored.add, BeforeEviction: s.save, Logger: s.cfg.Logger})
	if err != nil {
		return err
	}
	if len(s.ring.Captures()) == 0 { // of a store that begins again
		clear(stored)
	}
	if err := s.books.load(s.cfg.Store, s.ring.Epoch(), stored); err != nil {
		s.cfg.Logger.Error("the counts of former captures cannot be used", "folder", s.cfg.Store, "error", err)
	}
	for _, uid := range s.books.forgottenOf(s.ring.Captures()) {
		s.ring.Forget(uid)
	}
	return nil
}

// save saves the books. The ring calls it too.
func (s *server) save() error { return s.books.save(s.cfg.Store, s.ring.Epoch()) }

func (m *Main) listen() error {
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "switchyard_traffic_calls_total", Help: "Calls by method and status code; streams as they end."}, []string{"method", "code"})
	size := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "switchyard_traffic_store_bytes", Help: "Size of the stored exchanges."}, func() float64 { return float64(m.ring.Bytes()) })
	attached := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "switchyard_traffic_attached_pods", Help: "Pods of forks that are connected."}, func() float64 { return float64(m.books.connected()) })
	if err := errors.Join(m.cfg.Metrics.Register(calls), m.cfg.Metrics.Register(size), m.cfg.Metrics.Register(attached), m.cfg.Metrics.Register(m.exchanges)); err != nil {
		return fmt.Errorf("traffic-manager: %w", err)
	}
	all, err := callers.Listeners(map[string]string{"traffic": m.cfg.Address, "health": m.cfg.HealthAddress}, maxConnections, m.cfg.Metrics, "switchyard_traffic_connections_closed_total", m.cfg.Logger)
	if err != nil {
		return fmt.Errorf("traffic-manager: %w", err)
	}
	m.on, m.onProbe = all["traffic"], all["health"]
	m.known = m.on.IdentifyAs
	m.grpc = grpc.NewServer(streams.Server{
		Credentials: trust.ServerCredentials(m.cfg.TLS.Server(), false), MaxRequest: maxBatch, MaxHeaders: 64 << 10,
		Idle: 5 * time.Minute, Within: answerWithin, Calls: calls,
	}.Options()...)
	trafficv1.RegisterSidecarsServer(m.grpc, m.server)
	trafficv1.RegisterReadersServer(m.grpc, m.server)
	return nil
}

// Address is where the services are served, as host:port.
func (m *Main) Address() string { return m.on.Addr().String() }

// HealthAddress is where health and metrics are served, as host:port.
func (m *Main) HealthAddress() string { return m.onProbe.Addr().String() }

// Run serves until ctx ends and returns nil then, or until a part fails. Call it once.
func (m *Main) Run(ctx context.Context) error {
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return m.cfg.TLS.Run(ctx) })
	all.Go(func() error { return m.cluster.cache.Start(ctx) })
	all.Go(func() error { return m.cluster.follow(ctx) })
	all.Go(func() error { return m.keep(ctx) })
	all.Go(func() error { return m.serve(ctx) })
	all.Go(func() error {
		return callers.ServeProbes(ctx, m.onProbe, scrapes.Mux(m.cfg.Metrics, func() string {
			if m.cluster.ready.Load() {
				return ""
			}
			return errNotSynced.Error()
		}))
	})
	return errors.Join(all.Wait(), m.save(), m.ring.Close())
}

// serve serves gRPC. Streams are ended when ctx is.
func (m *Main) serve(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- m.grpc.Serve(m.on) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve on %s: %w", m.Address(), err)
	case <-ctx.Done():
	}
	close(m.stopping)
	hard := time.AfterFunc(stopWithin, m.grpc.Stop)
	defer hard.Stop()
	m.grpc.GracefulStop()
	return nil
}

// keep syncs the ring, forgets captures, and saves the books, until ctx ends.
func (m *Main) keep(ctx context.Context) error {
	saved := m.cfg.Clock()
	for wake.Sleep(ctx, syncEvery) {
		err := m.ring.Sync()
		if all, unknown := m.cluster.captures(ctx, ""); unknown == nil {
			for _, uid := range m.books.sync(all) {
				m.ring.Forget(uid)
			}
		}
		if now := m.cfg.Clock(); now.Sub(saved) >= saveEvery {
			saved, err = now, errors.Join(err, m.save())
		}
		if err != nil {
			m.cfg.Logger.Error("the store cannot be written", "folder", m.cfg.Store, "error", err)
		}
	}
	return nil
}
