package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/callers/scrapes"
	"switchyard.dev/eventbus/wake"
	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/workflows/jobexec/artifacts"
	"switchyard.dev/workflows/jobexec/layout"
	"switchyard.dev/workflows/jobexec/routing"
	"switchyard.dev/workflows/jobexec/socket"
	"switchyard.dev/workflows/jobexec/ticket"
)

// Config configures a Main.
type Config struct {
	// PodUID is the UID of the pod. Required.
	PodUID string
	// Enrolment is where certificates come from. Required.
	Enrolment Enrolment
	// Store is the folder with all files, and Socket that of the executor. Required.
	Store, Socket string
	// Artifacts are the limits of the artifacts of a job. Defaults: 1 GiB each, and 1 GiB all.
	Artifacts artifacts.Limits
	// Address and HealthAddress are those of the service, and of metrics and readiness. Required.
	Address, HealthAddress string
	// Routing configures the HTTP proxy of scripts. Required; Logger and Metrics are those of this Config.
	Routing routing.Config
	// Linger is how long an ending waits for the Job controller when the pod is terminated. Default: 20 s.
	Linger time.Duration
	// StreamWithin is how long a stream lasts, before its client has to show another ticket. Default: the life of one.
	StreamWithin time.Duration
	// Logger and Metrics. Default: none, and a new one.
	Logger  *slog.Logger
	Metrics *prometheus.Registry
}

// Main is the program. Make one with New.
type Main struct {
	cfg             Config
	service         *service
	grpc            *grpc.Server
	onAPI, onHealth *callers.Listener
	stop            context.CancelFunc
}

// stopWithin is how long calls under way are waited for at the end.
const stopWithin = 3 * time.Second

// New opens the store and the listeners. The caller calls Run.
func New(cfg Config) (*Main, error) {
	if cfg.PodUID == "" || cfg.Store == "" || cfg.Socket == "" || cfg.Enrolment.Roots == nil {
		return nil, errors.New("job-executor-proxy: PodUID, Store, Socket and Enrolment are all required")
	}
	cfg.Artifacts.Each = cmp.Or(cfg.Artifacts.Each, 1<<30)
	cfg.Artifacts.All = cmp.Or(cfg.Artifacts.All, 1<<30)
	cfg.Linger, cfg.StreamWithin = cmp.Or(cfg.Linger, 20*time.Second), cmp.Or(cfg.StreamWithin, ticket.Lifetime)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	cfg.Metrics = cmp.Or(cfg.Metrics, prometheus.NewRegistry())
	who, err := newIdentity(cfg.Enrolment, cfg.PodUID, cfg.Logger)
	if err != nil {
		return nil, err
	}
	m := &Main{cfg: cfg}
	r := &runner{podUID: cfg.PodUID, store: store{cfg.Store}, executor: socket.NewClient(cfg.Socket), artifacts: cfg.Artifacts,
		capacity: layout.StreamBytes*layout.KeptExecutions + cfg.Artifacts.All, logger: cfg.Logger}
	r.ctx, m.stop = context.WithCancel(context.Background())
	m.service = &service{runner: r, identity: who, calls: newCalls(), within: cfg.StreamWithin, counts: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "switchyard_jobexec_calls_total", Help: "Calls to the runner, by method and status code; streams as they end.",
	}, []string{"method", "code"})}
	if err := cfg.Metrics.Register(m.service.counts); err != nil {
		return nil, fmt.Errorf("job-executor-proxy: %w", err)
	}
	all, err := callers.Listeners(map[string]string{"api": cfg.Address, "health": cfg.HealthAddress}, maxConnections, cfg.Metrics,
		"switchyard_jobexec_connections_closed_total", cfg.Logger)
	if err != nil {
		return nil, fmt.Errorf("job-executor-proxy: %w", err)
	}
	m.onAPI, m.onHealth = all["api"], all["health"]
	m.service.known = m.onAPI.IdentifyAs
	m.grpc = grpc.NewServer(m.service.serverOptions()...)
	jobexecv1.RegisterExecutorServer(m.grpc, m.service)
	cfg.Routing.Logger, cfg.Routing.Metrics = cfg.Logger, cfg.Metrics
	if r.routing, err = routing.New(cfg.Routing); err == nil {
		if err = r.resume(); err != nil {
			err = errors.Join(err, r.routing.Close())
		}
	}
	if err != nil {
		m.stop()
		return nil, errors.Join(fmt.Errorf("job-executor-proxy: %w", err), callers.Close(m.onAPI, m.onHealth))
	}
	return m, nil
}

// Address and HealthAddress are where the service, and metrics and readiness are, as host:port.
func (m *Main) Address() string { return m.onAPI.Addr().String() }

// HealthAddress is documented at Address.
func (m *Main) HealthAddress() string { return m.onHealth.Addr().String() }

// Run serves until ctx ends, and then until the execution that runs has ended and its controller has received the
// ending. It returns nil then, or the error of a part that has failed.
func (m *Main) Run(ctx context.Context) error {
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	all, inner := errgroup.WithContext(inner)
	all.Go(func() error { return m.service.identity.run(inner) })
	all.Go(func() error { return m.service.check(inner) })
	all.Go(func() error { return m.service.routing.Run(inner) })
	all.Go(func() error { return callers.ServeProbes(inner, m.onHealth, scrapes.Mux(m.cfg.Metrics, m.unready)) })
	all.Go(func() error {
		if err := m.grpc.Serve(m.onAPI); err != nil {
			return fmt.Errorf("serve on %s: %w", m.Address(), err)
		}
		return nil
	})
	all.Go(func() error {
		defer cancel()
		select {
		case <-ctx.Done():
			m.drain(inner)
		case <-inner.Done():
		}
		hard := time.AfterFunc(stopWithin, m.grpc.Stop)
		defer hard.Stop()
		m.grpc.GracefulStop()
		m.stop()
		m.service.tasks.Wait()
		return nil
	})
	return all.Wait()
}

// drain begins nothing more, and waits for the execution that runs, and then for its controller.
func (m *Main) drain(ctx context.Context) {
	s := m.service
	s.mu.Lock()
	s.stopping = true
	s.mu.Unlock()
	for s.current() != nil && wake.Sleep(ctx, 50*time.Millisecond) {
	}
	awaited := func() bool { return slices.ContainsFunc(s.executions(), (*execution).awaited) }
	for until := time.Now().Add(m.cfg.Linger); awaited() && time.Now().Before(until) && wake.Sleep(ctx, 50*time.Millisecond); {
	}
}

// unready returns why the runner cannot begin executions; empty: it can.
func (m *Main) unready() string { return cmp.Or(m.service.identity.unready(), m.service.unready()) }
