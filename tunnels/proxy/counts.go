package proxy

import (
	"errors"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"switchyard.dev/tunnels/audit"
)

// counts counts connections, under the published metric names.
type counts struct {
	active *prometheus.GaugeVec
	all    *prometheus.CounterVec
	now    atomic.Int64
}

func newCounts(registry prometheus.Registerer) (*counts, error) {
	c := &counts{
		active: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "signadot_operator_tunnel_proxy_active_connections", Help: "Connections that pass the proxy now.",
		}, []string{"direction"}),
		all: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "signadot_operator_tunnel_proxy_connections_total", Help: "Connections that have passed the proxy.",
		}, []string{"direction"}),
	}
	for _, d := range []audit.Direction{audit.Inbound, audit.Outbound} {
		c.active.WithLabelValues(string(d))
		c.all.WithLabelValues(string(d))
	}
	return c, errors.Join(registry.Register(c.active), registry.Register(c.all))
}

// Begun implements inbound.Counts and outbound.Counts.
func (c *counts) Begun(d audit.Direction) (ended func()) {
	active := c.active.WithLabelValues(string(d))
	active.Inc()
	c.all.WithLabelValues(string(d)).Inc()
	c.now.Add(1)
	return func() {
		active.Dec()
		c.now.Add(-1)
	}
}
