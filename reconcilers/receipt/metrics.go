package receipt

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the metrics of Receipts.
type metrics struct{ took prometheus.Histogram }

func newMetrics(registry prometheus.Registerer, awaited func() float64) (*metrics, error) {
	m := &metrics{took: prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: "switchyard_receipt", Name: "seconds",
		Help:    "From the facts of a routing key being on the log until every proxy that can see it has acknowledged them.",
		Buckets: prometheus.ExponentialBuckets(0.002, 2.5, 10),
	})}
	if registry == nil {
		return m, nil
	}
	waiting := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "switchyard_receipt", Name: "awaited", Help: "Routing keys whose rules some proxy has not acknowledged.",
	}, awaited)
	if err := errors.Join(registry.Register(m.took), registry.Register(waiting)); err != nil {
		return nil, fmt.Errorf("receipt: register metrics: %w", err)
	}
	return m, nil
}
