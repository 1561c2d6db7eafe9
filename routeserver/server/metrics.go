package server

import (
	"context"
	"fmt"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/callers/scrapes"
)

// closedBy counts the connections that a listener closed to make room.
func closedBy(name string, l *callers.Listener) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "switchyard_routeserver_connections_closed_total", Help: "Connections of strangers that were closed to make room for others.",
		ConstLabels: prometheus.Labels{"listener": name},
	}, func() float64 { return float64(l.Closed()) })
}

// serveMetrics answers /metrics until ctx ends.
func serveMetrics(ctx context.Context, listener net.Listener, registry *prometheus.Registry) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", scrapes.New(registry))
	if err := callers.ServeProbes(ctx, listener, mux); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}
