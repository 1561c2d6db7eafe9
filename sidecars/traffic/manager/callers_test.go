package manager_test

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/sidecars/traffic/manager"
)

// Requests are sent back to an address that a sidecar states as its own. A node, the API server or another pod of traffic-manager has no
// sidecar there, and a port that a node forwards to a pod has a sidecar with another address.
func TestRequestsAreSentBackToTheAddressOfASidecar(t *testing.T) {
	metrics := prometheus.NewRegistry()
	c, err := manager.NewSidecarCallers(metrics, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	at := func(host string, answer http.HandlerFunc) {
		t.Helper()
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(devmesh.ReadinessPort)))
		if err != nil {
			t.Fatal(err)
		}
		s := &http.Server{Handler: answer}
		go func() { _ = s.Serve(l) }()
		t.Cleanup(func() { _ = s.Close() })
	}
	text := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if asked++; r.URL.Path != devmesh.AddressPath {
				http.NotFound(w, r)
				return
			}
			_, _ = io.WriteString(w, text)
		}
	}
	const sidecar, forwarded, other, redirects, nothing = "127.77.0.1", "127.77.0.2", "127.77.0.3", "127.77.0.4", "127.77.0.5"
	at(sidecar, text(sidecar))
	at(forwarded, text("10.0.0.9"))
	at(other, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, other)
	})
	at(redirects, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://"+sidecar+":"+strconv.Itoa(devmesh.ReadinessPort)+devmesh.AddressPath, http.StatusFound)
	})
	for range 3 {
		if err := c.Check(sidecar); err != nil {
			t.Error(err)
		}
	}
	if asked != 1 {
		t.Errorf("the sidecar was asked %d times", asked)
	}
	for _, host := range []string{forwarded, other, redirects, nothing} {
		if c.Check(host) == nil {
			t.Errorf("requests are sent back to %s", host)
		}
	}
	c.Failed(nothing, errors.New("refused"))
	families, err := metrics.Gather()
	if err != nil || len(families) != 1 || families[0].GetMetric()[0].GetCounter().GetValue() != 1 {
		t.Errorf("the metrics are %v, %v", families, err)
	}
}
