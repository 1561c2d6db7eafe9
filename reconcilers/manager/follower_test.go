package manager

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// A sum over replicas is to count each pod once.
func TestOnlyTheLeaderCountsPods(t *testing.T) {
	registry := prometheus.NewRegistry()
	if err := registry.Register(coverageMetrics{leads: make(chan struct{})}); err != nil { // a reader would be missed
		t.Fatal(err)
	}
	if families, err := registry.Gather(); err != nil || len(families) > 0 {
		t.Errorf("a replica that does not lead says %v, %v", families, err)
	}
}
