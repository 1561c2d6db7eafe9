package serve

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what a server counts.
type metrics struct {
	streams                   prometheus.Gauge
	pushes, acks, nacks, slow prometheus.Counter
	refused                   *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "switchyard", Subsystem: "xds", Name: name, Help: help})
	}
	m := &metrics{
		streams: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "switchyard", Subsystem: "xds", Name: "streams", Help: "xDS streams that are open.",
		}),
		pushes: counter("pushes_total", "xDS responses sent."),
		acks:   counter("acks_total", "xDS responses that a client accepted."),
		nacks:  counter("nacks_total", "xDS responses that a client refused."),
		slow:   counter("slow_clients_total", "xDS streams ended because the client did not read."),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "switchyard", Subsystem: "xds", Name: "refused_total", Help: "xDS streams refused or ended for breaking a rule, by gRPC code.",
		}, []string{"code"}),
	}
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.streams, m.pushes, m.acks, m.nacks, m.slow, m.refused} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("xds: register a metric: %w", err)
		}
	}
	return m, nil
}
