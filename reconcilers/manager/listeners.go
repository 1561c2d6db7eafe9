package manager

import (
	"net"
	"net/http"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/callers/scrapes"
)

// Every pod of the cluster can connect to the listeners for probes and metrics. Those of
// controller-runtime have no limit of connections and no write timeout, so the manager has its own.

const (
	// maxConnections bounds the connections of each; for more, silent ones are closed.
	maxConnections = 256
	// lastAnswers is the time for responses in progress at shutdown.
	lastAnswers = time.Second
)

// addListeners opens the listeners for probes and for metrics.
func (m *Main) addListeners() error {
	checks := http.NewServeMux()
	for path, check := range map[string]healthz.Checker{"/healthz": healthz.Ping, "/readyz": m.readyz} {
		handler := http.StripPrefix(path, &healthz.Handler{Checks: map[string]healthz.Checker{path[1:]: check}})
		checks.Handle("GET "+path, handler)
		checks.Handle("GET "+path+"/", handler)
	}
	measured := http.NewServeMux()
	measured.Handle("GET /metrics", scrapes.New(metrics.Registry))
	for _, one := range []struct {
		name, address string
		handler       http.Handler
		at            *net.Addr
	}{{"health", m.config.HealthAddress, checks, &m.healthAt}, {"metrics", m.config.MetricsAddress, measured, &m.metricsAt}} {
		if one.address == "" || one.address == "0" {
			continue
		}
		l, err := callers.Listen(one.address, one.name, maxConnections, 0, m.config.Logger)
		if err != nil {
			return err
		}
		*one.at = l.Addr()
		within := lastAnswers
		serving := &manager.Server{Name: one.name, Server: callers.ProbeServer(one.handler), Listener: l, ShutdownTimeout: &within}
		m.add("the listener for "+one.name, serving)
	}
	return nil
}

// Addresses returns the addresses of the listeners for probes and metrics; nil for one that is disabled.
func (m *Main) Addresses() (health, metrics net.Addr) { return m.healthAt, m.metricsAt }

// readyz returns why pods or VirtualServices cannot be reviewed; nil if they can, or the webhook is
// disabled.
func (m *Main) readyz(r *http.Request) error {
	if m.injector == nil {
		return nil
	}
	if m.istio != nil {
		if err := m.istio.Ready(); err != nil {
			return err
		}
	}
	return m.injector.Ready(r)
}
