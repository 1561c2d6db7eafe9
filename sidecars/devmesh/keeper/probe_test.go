package keeper_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"switchyard.dev/sidecars/devmesh"
)

// A probe of the kubelet for a TCP port must tell of the application and not of
// the sidecar, which accepts connections to any port.
func TestProbesOfAPortTellOfTheApplication(t *testing.T) {
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
