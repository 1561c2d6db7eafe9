package serve

import (
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"switchyard.dev/xds/delta"
)

// metrics are what a server counts.
type metrics struct {
	streams, refusing                prometheus.Gauge
	acks, nacks, slow, bytes         prometheus.Counter
	pushes, refused                  *prometheus.CounterVec
	untilSent, untilAcked, untilTurn prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	named := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "switchyard", Subsystem: "xds", Name: name, Help: help}
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts(named(name, help)))
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts(named(name, help)))
	}
	vector := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts(named(name, help)), []string{label})
	}
	histogram := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "switchyard", Subsystem: "xds", Name: name, Help: help,
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		})
	}
	m := &metrics{
		streams:    gauge("streams", "xDS streams that are open."),
		refusing:   gauge("refusing_streams", "xDS streams whose client has refused routes and accepted none since."),
		pushes:     vector("pushes_total", "xDS responses sent, by type of resource.", "type"),
		bytes:      counter("sent_bytes_total", "Bytes of the xDS responses sent."),
		acks:       counter("acks_total", "xDS responses that a client accepted."),
		nacks:      counter("nacks_total", "xDS responses that a client refused; what it refused is not sent to it again."),
		slow:       counter("slow_clients_total", "xDS streams ended because the client did not read."),
		refused:    vector("refused_total", "xDS streams refused or ended for breaking a rule, by gRPC code.", "code"),
		untilSent:  histogram("change_sent_seconds", "Time from a change of a workload's routes until they were sent to one client."),
		untilAcked: histogram("change_acked_seconds", "Time from a change of a workload's routes until one client had accepted or refused them."),
		untilTurn:  histogram("turn_seconds", "Time that a stream waited for its turn to write."),
	}
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{
		m.streams, m.refusing, m.pushes, m.bytes, m.acks, m.nacks, m.slow, m.refused, m.untilSent, m.untilAcked, m.untilTurn,
	} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("xds: register a metric: %w", err)
		}
	}
	return m, nil
}

// pushed counts a response that was sent.
func (m *metrics) pushed(r *delta.Response) {
	m.pushes.WithLabelValues(r.Type[strings.LastIndexByte(r.Type, '.')+1:]).Inc()
	size := 0
	for _, one := range r.Resources {
		size += len(one.Any.GetValue()) + len(one.Name) + len(one.Version)
	}
	for _, name := range r.Removed {
		size += len(name)
	}
	m.bytes.Add(float64(size))
}

// since observes the time since a moment, unless that is not known.
func since(h prometheus.Histogram, at time.Time) {
	if !at.IsZero() {
		h.Observe(time.Since(at).Seconds())
	}
}
