package keeper_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"sync/atomic"
	"testing"
)

// What `helm upgrade --set 'routing.customHeaders={x-late}'` does to a pod that goes on
// running: its keyed requests went to the baseline for ever, while the list was in the
// environment of its container. A client that keeps its connection notices nothing but
// the new route.
func TestCustomHeadersFollowOnAConnectionThatStays(t *testing.T) {
	r := start(t, sandbox("k1", "10.96.1.41:80", 8080))
	r.serveHTTP(r.fork("10.96.1.41:80"), "fork")
	before := r.envoys()
	for name, transport := range map[string]*http.Transport{"HTTP/1.1": {MaxConnsPerHost: 1}, "HTTP/2": http2Only()} {
		t.Run(name, func(t *testing.T) {
			defer transport.CloseIdleConnections()
			connections := counted(transport)
			ask := func(side string) error {
				got, err := r.over(transport, 8080, [2]string{"X-Late", "k1"})
				if err == nil && got.Side != side {
					err = fmt.Errorf("served by %s, not by the %s", got.Side, side)
				}
				return err
			}
			r.Board.KeyHeaders()
			r.acked()
			r.must(ask("baseline"))
			r.Board.KeyHeaders("x-other", "X-Late")
			r.eventually("the header carries keys", func() error { return ask("fork") })
			r.Board.KeyHeaders("x-other")
			r.eventually("it does not any more", func() error { return ask("baseline") })
			if n := connections.Load(); n != 1 {
				t.Errorf("the client had to open %d connections, want 1", n)
			}
		})
	}
	if now := r.envoys(); now != before {
		t.Errorf("Envoy was started anew: its process is %s, and was %s", now, before)
	}
}

// A sidecar that starts while the route server is away has the list that it last had.
func TestCustomHeadersAreKeptWithTheRoutes(t *testing.T) {
	r := startAlone(t, func(r *rig) {
		r.serveHTTP(r.fork("10.96.1.42:80"), "fork")
		r.Board.Declare(sandbox("k1", "10.96.1.42:80", 8080))
		r.Board.KeyHeaders("x-late")
	})
	r.expect("fork", 8080, [2]string{"x-late", "k1"})
}

// counted counts the connections that a transport opens from now on.
func counted(transport *http.Transport) *atomic.Int32 {
	var n atomic.Int32
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		n.Add(1)
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	return &n
}

// envoys returns the process IDs of the rig's Envoys.
func (r *rig) envoys() string {
	r.t.Helper()
	out, err := exec.Command("pgrep", "-f", "-x", ".*envoy.*"+r.run+".*").Output()
	r.must(err)
	return string(out)
}
