package agent

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"switchyard.dev/controlplane-link/link"
	"switchyard.dev/tunnels/audit"
)

// metrics are the agent's. The first has its published name.
type metrics struct {
	attempts prometheus.Counter
	states   *prometheus.GaugeVec
	active   prometheus.Gauge
	opened   prometheus.Counter
	unknown  *prometheus.GaugeVec
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		attempts: prometheus.NewCounter(prometheus.CounterOpts{Name: "signadot_operator_agent_connection_attempts", Help: "Attempts to connect to the control plane."}),
		states:   prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "signadot_operator_agent_link_state", Help: "1 for the present state of the link to the control plane."}, []string{"state"}),
		active:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "signadot_operator_agent_active_connections", Help: "Connections to Services that pass the agent now."}),
		opened:   prometheus.NewCounter(prometheus.CounterOpts{Name: "signadot_operator_agent_connections_total", Help: "Connections to Services that have passed the agent."}),
		unknown:  prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "switchyard_agent_unknown_objects", Help: "Objects that the control plane does not know."}, []string{"resource"}),
	}
	m.state(link.Down)
	return m, errors.Join(registry.Register(m.attempts), registry.Register(m.states), registry.Register(m.active), registry.Register(m.opened), registry.Register(m.unknown))
}

// state records the present state.
func (m *metrics) state(now link.Kind) {
	for _, k := range link.Kinds {
		is := 0.0
		if k == now {
			is = 1
		}
		m.states.WithLabelValues(k.String()).Set(is)
	}
}

// Begun implements outbound.Counts.
func (m *metrics) Begun(audit.Direction) (ended func()) {
	m.active.Inc()
	m.opened.Inc()
	return m.active.Dec
}
