package webhook

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics counts reviews by outcome and times them.
type metrics struct {
	reviews  *prometheus.CounterVec
	duration prometheus.Histogram
}

func newMetrics(to prometheus.Registerer) *metrics {
	m := &metrics{
		reviews: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "switchyard_webhook_reviews_total",
			Help: "Pods the injecting webhook was asked about, by outcome: injected, declined (asked for a sidecar and got none), untouched, fault (an error of the injector's), refused (not a review).",
		}, []string{"outcome"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "switchyard_webhook_review_seconds",
			Help:    "Time from the request's headers to the answer.",
			Buckets: []float64{.0001, .0002, .0005, .001, .002, .005, .01, .05, .2, 1, 2},
		}),
	}
	if to != nil {
		to.MustRegister(m.reviews, m.duration)
	}
	return m
}

func (m *metrics) count(outcome string, began time.Time) {
	m.reviews.WithLabelValues(outcome).Inc()
	m.duration.Observe(time.Since(began).Seconds())
}
