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

// serveMetrics answers /metrics until ctx ends.
func serveMetrics(ctx context.Context, listener net.Listener, registry *prometheus.Registry) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", scrapes.New(registry))
	if err := callers.ServeProbes(ctx, listener, mux); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}
