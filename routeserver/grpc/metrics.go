package routesgrpc

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	routesv1 "switchyard.dev/protos/gen/routes"
)

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
