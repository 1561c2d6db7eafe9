package view

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"switchyard.dev/eventbus/event"
)

// metrics are the metrics of one view. Gauges are computed from the table at each scrape, so they
// are never stale.
type metrics struct {
	following    prometheus.Gauge
	epochChanges prometheus.Counter
	facts        prometheus.Counter
	lag          prometheus.Histogram
}

const namespace = "switchyard_view"

func newMetrics(v *View, registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		following: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Name: "following", Help: "1 while the routing log is being followed.",
		}),
		epochChanges: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Name: "epoch_changes_total", Help: "Times that the routing log began again.",
		}),
		facts: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Name: "facts_total", Help: "Facts folded into the table.",
		}),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Name: "lag_seconds", Help: "Time from stating a fact to having it in the table, by the clocks of both ends.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 14),
		}),
	}
	if registry == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{
		m.following, m.epochChanges, m.facts, m.lag,
		gauge("sequence", "Position of the served table in the routing log.", func() float64 { return float64(v.shown.Load().Pos().Seq) }),
		gauge("rules", "Rules in the served table.", func() float64 { return float64(v.shown.Load().Len()) }),
		gauge("conflicts", "Members that lost their baseline to another one.", func() float64 { return float64(len(v.shown.Load().Conflicts())) }),
		gauge("whole", "1 once there is a whole table to serve.", func() float64 {
			if v.shown.Load().Whole() {
				return 1
			}
			return 0
		}),
	} {
		errs = append(errs, registry.Register(c))
	}
	return m, errors.Join(errs...)
}

func gauge(name, help string, value func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, value)
}

// folded counts facts that have been folded into the table. Lag is measured on newly recorded facts
// only; the rest of a log is old.
func (m *metrics) folded(facts []event.Recorded) {
	m.facts.Add(float64(len(facts)))
	stated := facts[len(facts)-1].Fact.Time
	if lag := time.Since(stated); !stated.IsZero() && lag < time.Minute {
		m.lag.Observe(max(0, lag.Seconds()))
	}
}
