package agent

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"switchyard.dev/controlplane-link/link"
	"switchyard.dev/tunnels/audit"
)

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
