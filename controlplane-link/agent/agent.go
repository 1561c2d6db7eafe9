package agent

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	client "k8s.io/client-go/kubernetes/typed/core/v1"

	"switchyard.dev/controlplane-link/admission"
	"switchyard.dev/controlplane-link/kubeapi"
	"switchyard.dev/controlplane-link/link"
	"switchyard.dev/controlplane-link/reach"
	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/callers/scrapes"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/audit"
	"switchyard.dev/tunnels/carrier"
	"switchyard.dev/tunnels/cluster"
)

// Main is the agent. Make one with Settings.Open.
type Main struct {
	settings   Settings
	logger     *slog.Logger
	registry   *prometheus.Registry
	metrics    *metrics
	cluster    *cluster.Cluster
	audit      *audit.Log
	reach      *reach.Reach
	kubernetes *kubeapi.API
	configMaps client.ConfigMapInterface // of the operator's namespace
	token      *token
	uid        *uid
	link       *link.Agent
	unknown    *unknown // nil: it is not reported
}

const (
	// maxConnections bounds the connections to each listener.
	maxConnections = 2048
	// lingerWithin is how long connections have to end when the agent ends. The chart gives its pod 30 s.
	lingerWithin = 20 * time.Second
)

// Run keeps the session until ctx ends, and lingerWithin longer while there are connections; it returns nil then.
// It returns an error when a part fails. Call it once.
func (m *Main) Run(ctx context.Context) error {
	defer m.audit.Close()
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	all, serving := errgroup.WithContext(serving)
	all.Go(func() error { return m.serve(serving, m.settings.HealthAddress, "health", m.health()) })
	all.Go(func() error { return m.serve(serving, m.settings.MetricsAddress, "metrics", m.scraped()) })
	all.Go(func() error { return m.cluster.Run(serving) })
	all.Go(func() error {
		defer stop()
		linking, end := context.WithCancel(ctx)
		defer end()
		defer context.AfterFunc(serving, end)()
		// Before the caches have synced no address is known, and none is reached.
		if err := m.cluster.Synced(linking); err != nil && linking.Err() == nil {
			return err
		}
		m.link.Run(linking)
		return nil
	})
	all.Go(func() error {
		m.token.watch(serving, m.link.Renew)
		return nil
	})
	if m.unknown != nil {
		all.Go(func() error {
			m.unknown.run(serving, m.link)
			return nil
		})
	}
	all.Go(func() error {
		m.follow(serving)
		return nil
	})
	return all.Wait()
}

// follow keeps the metric of the link's state.
func (m *Main) follow(ctx context.Context) {
	for {
		state, changed := m.link.State()
		m.metrics.state(state.Kind)
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// hello returns the Hello of an attempt.
func (m *Main) hello(ctx context.Context, instance string) (*linkv1.Hello, error) {
	m.metrics.attempts.Inc()
	uid, err := m.uid.read(ctx)
	return &linkv1.Hello{Version: admission.Version, ClusterUid: uid, Instance: instance, OperatorVersion: m.settings.Version, Configuration: m.settings.Configuration}, err
}

// handle answers one connection that the control plane requests.
func (m *Main) handle(ctx context.Context, in *carrier.Incoming, welcome *linkv1.Welcome) {
	open, _ := in.Request.(*linkv1.Open)
	switch to := open.GetTo().(type) {
	case *linkv1.Open_Service:
		m.reach.Serve(ctx, in, open, welcome.GetOrganisation())
	case *linkv1.Open_KubernetesApi:
		m.kubernetes.Serve(ctx, in, open, welcome.GetOrganisation())
	case *linkv1.Open_Keys:
		m.setKeys(ctx, in, to.Keys, welcome)
	default:
		in.Refuse(&tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_INVALID, Message: "This agent does not know the kind of destination. Install an operator of the control plane's release."})
	}
}

// serve serves a listener for probes or metrics until ctx ends.
func (m *Main) serve(ctx context.Context, address, name string, handler http.Handler) error {
	l, err := callers.Listen(address, name, maxConnections, callers.WriteWithin, m.logger)
	if err != nil {
		return err
	}
	if err := l.CountClosed(m.registry, "switchyard_agent_connections_closed_total", prometheus.Labels{"listener": name}); err != nil {
		return err
	}
	return callers.ServeProbes(ctx, l, handler)
}

// scraped returns the handler of metrics.
func (m *Main) scraped() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", scrapes.New(m.registry))
	return mux
}

// health returns the handler of probes.
func (m *Main) health() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /nullz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		state, _ := m.link.State()
		ready, message := state.Ready(time.Now())
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if !ready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = fmt.Fprintln(w, message)
	})
	return mux
}
