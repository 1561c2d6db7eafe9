package webhook

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics counts reviews by outcome and times them.
type metrics struct {
	reviews  *prometheus.CounterVec
	duration prometheus.Histogram
}

func newMetrics(to prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		reviews: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "switchyard_webhook_reviews_total",
			Help: "Reviews by the webhook, by outcome: injected, declined (asked for a sidecar and got none), untouched, fault (an error of the injector); objects of the operator: admitted, denied; refused (not a review).",
		}, []string{"outcome"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "switchyard_webhook_review_seconds",
			Help:    "Time from the request's headers to the answer.",
			Buckets: []float64{.0001, .0002, .0005, .001, .002, .005, .01, .05, .2, 1, 2},
		}),
	}
	if to == nil {
		return m, nil
	}
	if err := errors.Join(to.Register(m.reviews), to.Register(m.duration)); err != nil {
		return nil, fmt.Errorf("register the webhook's metrics (two webhooks in one process need a registry each): %w", err)
	}
	return m, nil
}

func (m *metrics) count(outcome string, began time.Time) {
	m.reviews.WithLabelValues(outcome).Inc()
	m.duration.Observe(time.Since(began).Seconds())
}
