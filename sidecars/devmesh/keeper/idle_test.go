package keeper_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"switchyard.dev/sidecars/devmesh"
	flood "switchyard.dev/tests/attack"
)

// A connection on which nothing goes on costs its client nothing, and the sidecar memory
// that others need. While memory is short those go, and requests are served.
func TestIdleConnectionsGoWhileMemoryIsShort(t *testing.T) {
	const many, limit = 1800, 256 << 20
	r := newRig(t)
	r.under = []string{"env", fmt.Sprintf("%s=%d", devmesh.EnvMemoryLimit, limit)}
	app := r.app(8080)
	go func() { _ = flood.Serve(app) }() // ends with the listener
	r.serveXDS()
	r.sidecar()
	r.ready()
	before := r.envoys()
	address := net.JoinHostPort(r.address, "8080")
	r.must(flood.Ready(t.Context(), address, time.Minute))
	held, err := flood.Flood(t.Context(), address, flood.Kind{Idle: true}, many)
	r.must(err)
	defer held.Release()

	r.eventually("idle connections are closed", func() error {
		if closed := held.Refused.Load(); closed < many*9/10 {
			return fmt.Errorf("%d of %d are", closed, many)
		}
		return nil
	})
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
	defer stop()
	if h := flood.Beside(ctx, address); h.Sent == 0 || h.Served < h.Sent {
		t.Errorf("%d of %d honest requests were not served: %v", h.Sent-h.Served, h.Sent, h.Failure)
	}
	if now := r.envoys(); now != before {
		t.Errorf("Envoy was %s and is %s", before, now)
	}
}
