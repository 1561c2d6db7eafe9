package keeper_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"switchyard.dev/sidecars/devmesh"
)

// A probe of the kubelet for a TCP port must test the application and not the sidecar, which
// accepts connections to any port.
func TestProbesOfAPortReachTheApplication(t *testing.T) {
	r := newRig(t)
	r.app(8080)
	r.Board.Complete()
	r.serveXDS()
	r.sidecar()
	r.ready()
	cases := map[string]int{
		"8080":                            http.StatusOK,
		"8081":                            http.StatusServiceUnavailable,
		"0":                               http.StatusBadRequest,
		"65536":                           http.StatusBadRequest,
		"http":                            http.StatusBadRequest,
		"-1":                              http.StatusBadRequest,
		fmt.Sprint(devmesh.ListenerPort):  http.StatusBadRequest,
		fmt.Sprint(devmesh.ReadinessPort): http.StatusBadRequest,
		"8080/more":                       http.StatusNotFound,
	}
	for port, want := range cases {
		request, err := http.NewRequest(http.MethodGet,
			fmt.Sprintf("http://%s:%d%s%s", r.address, devmesh.ReadinessPort, devmesh.ProbePath, port), http.NoBody)
		r.must(err)
		got, err := do(http.DefaultTransport, request)
		if err != nil || got.Status != want {
			t.Errorf("port %s: %d, %v, want %d; %s", port, got.Status, err, want, strings.TrimSpace(got.Body))
		}
	}
}

// The kubelet's event mentions an HTTP probe with status 503, which is not in the manifest: the
// log explains it, once for each change.
func TestARefusedProbeIsLoggedOncePerChange(t *testing.T) {
	r := newRig(t)
	r.Board.Complete()
	r.serveXDS()
	r.sidecar()
	r.ready()
	probe := func(want int) {
		t.Helper()
		for range 3 {
			request, err := http.NewRequest(http.MethodGet,
				fmt.Sprintf("http://%s:%d%s8080", r.address, devmesh.ReadinessPort, devmesh.ProbePath), http.NoBody)
			r.must(err)
			if got, err := do(http.DefaultTransport, request); err != nil || got.Status != want {
				t.Fatalf("%d, %v, want %d", got.Status, err, want)
			}
		}
	}
	const fails, succeeds = "a tcpSocket probe fails", "a tcpSocket probe succeeds again"
	probe(http.StatusServiceUnavailable)
	r.logged(fails, 1)
	r.logged(succeeds, 0)
	app := r.app(8080)
	probe(http.StatusOK)
	r.logged(succeeds, 1)
	r.must(app.Close())
	probe(http.StatusServiceUnavailable)
	r.logged(fails, 2)
	r.logged(succeeds, 1)
}

// traffic-manager sends requests back to an address that a sidecar states as its own.
func TestASidecarStatesTheAddressOfItsPod(t *testing.T) {
	r := newRig(t)
	r.Board.Complete()
	r.serveXDS()
	r.sidecar()
	r.ready()
	request, err := http.NewRequest(http.MethodGet, fmt.Sprintf("http://%s:%d%s", r.address, devmesh.ReadinessPort, devmesh.AddressPath), http.NoBody)
	r.must(err)
	if got, err := do(http.DefaultTransport, request); err != nil || got.Status != http.StatusOK || got.Body != r.address {
		t.Errorf("it answers with %d and %q, not %s: %v", got.Status, got.Body, r.address, err)
	}
}
