// Package agent is the program that connects a cluster to its control plane: it keeps the session
// (controlplane-link/link), and answers connections to Services (controlplane-link/reach), to the
// Kubernetes API (controlplane-link/kubeapi) and to the runners of jobs (controlplane-link/runner).
//
//	8088  /healthz: whether it is ready, and the state of the link as text; /nullz: alive
//	9090  /metrics
//
// Without a cluster token it is idle and ready. The token is read again when its file changes.
package agent

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	client "k8s.io/client-go/kubernetes/typed/core/v1"

	"switchyard.dev/controlplane-link/admission"
	"switchyard.dev/controlplane-link/identity"
	"switchyard.dev/controlplane-link/kubeapi"
	"switchyard.dev/controlplane-link/link"
	"switchyard.dev/controlplane-link/reach"
	"switchyard.dev/controlplane-link/runner"
	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/callers/scrapes"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/audit"
	"switchyard.dev/tunnels/carrier"
	"switchyard.dev/tunnels/cluster"
	"switchyard.dev/tunnels/controlkeys"
	"switchyard.dev/tunnels/credential/signed"
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
	runners    *runner.Agent
	core       client.CoreV1Interface
	link       *link.Agent
	unknown    *unknown // nil: it is not reported

	identifying sync.Mutex
	uid         string // of namespace kube-system, once it was read
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
	defer m.runners.Close() //nolint:errcheck // its calls have ended
	addresses := map[string]string{"health": m.settings.HealthAddress, "metrics": m.settings.MetricsAddress}
	listeners, err := callers.Listeners(addresses, maxConnections, m.registry, "switchyard_agent_connections_closed_total", m.logger)
	if err != nil {
		return err
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	all, serving := errgroup.WithContext(serving)
	all.Go(func() error { return callers.ServeProbes(serving, listeners["health"], m.health()) })
	exposed := http.NewServeMux()
	exposed.Handle("GET /metrics", scrapes.New(m.registry))
	all.Go(func() error { return callers.ServeProbes(serving, listeners["metrics"], exposed) })
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
	if m.unknown != nil {
		all.Go(func() error { m.unknown.run(serving, m.link); return nil })
	}
	return all.Wait()
}

// hello returns the Hello of an attempt.
func (m *Main) hello(ctx context.Context, instance string) (*linkv1.Hello, error) {
	m.metrics.attempts.Inc()
	m.identifying.Lock()
	defer m.identifying.Unlock()
	if m.uid == "" {
		system, err := m.core.Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("read the UID of the cluster: %w", err)
		}
		m.uid = string(system.UID)
	}
	return &linkv1.Hello{Version: admission.Version, ClusterUid: m.uid, Instance: instance, OperatorVersion: m.settings.Version, Configuration: m.settings.Configuration}, nil
}

// handle answers one connection that the control plane requests.
func (m *Main) handle(ctx context.Context, in *carrier.Incoming, welcome *linkv1.Welcome) {
	open, _ := in.Request.(*linkv1.Open)
	user, err := identity.Of(welcome.GetOrganisation(), open.GetCaller())
	if err != nil {
		in.Refuse(&tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_INVALID, Message: "The control plane's caller is refused: " + err.Error() + "."})
		return
	}
	switch to := open.GetTo().(type) {
	case *linkv1.Open_Service:
		m.reach.Serve(ctx, in, open, user)
	case *linkv1.Open_KubernetesApi:
		m.kubernetes.Serve(ctx, in, user)
	case *linkv1.Open_Runner:
		m.runners.Serve(ctx, in, open.GetCaller(), to.Runner)
	case *linkv1.Open_Traffic:
		m.runners.ServeTraffic(ctx, in, open.GetCaller(), to.Traffic)
	case *linkv1.Open_Keys:
		m.setKeys(ctx, in, to.Keys, welcome)
	default:
		in.Refuse(&tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_INVALID, Message: "This agent does not know the kind of destination. Install an operator of the control plane's release."})
	}
}

// keysWithin bounds the requests that store keys.
const keysWithin = 8 * time.Second

// setKeys stores the public keys of the control plane, for tunnel proxies and tunnel-api, and answers
// once they are stored.
func (m *Main) setKeys(ctx context.Context, in *carrier.Incoming, keys *linkv1.Keys, welcome *linkv1.Welcome) {
	set, err := signed.ParseKeys([]byte(keys.GetKeySet()))
	if err != nil {
		in.Refuse(&tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_INVALID, Message: "The agent does not store the keys: " + err.Error() + "."})
		return
	}
	ctx, cancel := context.WithTimeout(ctx, keysWithin)
	defer cancel()
	if err := controlkeys.Store(ctx, m.core.ConfigMaps(m.settings.Namespace), signed.Cluster{Organisation: welcome.GetOrganisation(), Name: welcome.GetCluster()}, set); err != nil {
		m.logger.Warn("the keys of the control plane are not stored, so tunnel proxies may refuse credentials of its users, or accept those of a removed key", "error", err)
		in.Refuse(&tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_UNAVAILABLE, Message: "The agent cannot store the keys: " + err.Error() + "."})
		return
	}
	if c, err := in.Accept(); err == nil {
		_ = c.Close()
	}
}

// health returns the handler of probes.
func (m *Main) health() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /nullz", scrapes.Probe(func() (bool, string) { return true, "ok" }))
	mux.HandleFunc("GET /healthz", scrapes.Probe(func() (bool, string) { state, _ := m.link.State(); return state.Ready(time.Now()) }))
	return mux
}

// metrics are the agent's. The first has its published name.
type metrics struct {
	attempts prometheus.Counter
	active   prometheus.Gauge
	opened   prometheus.Counter
	unknown  *prometheus.GaugeVec
}

// newMetrics registers the metrics. state returns the present state of the link.
func newMetrics(registry prometheus.Registerer, state func() link.Kind) *metrics {
	in := promauto.With(registry)
	for _, k := range link.Kinds {
		in.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "signadot_operator_agent_link_state", Help: "1 for the present state of the link to the control plane.", ConstLabels: prometheus.Labels{"state": k.String()},
		}, func() float64 {
			if k == state() {
				return 1
			}
			return 0
		})
	}
	return &metrics{
		attempts: in.NewCounter(prometheus.CounterOpts{Name: "signadot_operator_agent_connection_attempts", Help: "Attempts to connect to the control plane."}),
		active:   in.NewGauge(prometheus.GaugeOpts{Name: "signadot_operator_agent_active_connections", Help: "Connections to Services that pass the agent now."}),
		opened:   in.NewCounter(prometheus.CounterOpts{Name: "signadot_operator_agent_connections_total", Help: "Connections to Services that have passed the agent."}),
		unknown:  in.NewGaugeVec(prometheus.GaugeOpts{Name: "switchyard_agent_unknown_objects", Help: "Objects that the control plane does not know."}, []string{"resource"}),
	}
}

// Begun implements outbound.Counts.
func (m *metrics) Begun(audit.Direction) (ended func()) {
	m.active.Inc()
	m.opened.Inc()
	return m.active.Dec
}
