package meshes

import (
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"switchyard.dev/tests/world"
)

func TestMain(m *testing.M) {
	flag.Parse()
	err := findContour()
	if err == nil {
		err = Isolate(trafficManager)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// TestIstiodRoutesRequestsOfStockEnvoys is what every other test with this mesh stands on: a
// route written by hand reaches a sidecar, and the first that matches wins.
func TestIstiodRoutesRequestsOfStockEnvoys(t *testing.T) {
	w := world.Bare(t)
	Install(w)
	m := Start(w)
	m.Namespaces("app")
	m.Echo("app", "customer", net.IPv4(10, 77, 1, 1))
	m.Echo("app", "fork", net.IPv4(10, 77, 1, 2))
	m.Run(Proxy{Kind: Sidecar, Name: "client", Namespace: "app", IP: net.IPv4(10, 77, 2, 1), Labels: map[string]string{"app": "client"}})
	m.Make(&unstructured.Unstructured{}, `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: customer, namespace: app}
spec:
  hosts: [customer]
  http:
  - match: [{headers: {sd-routing-key: {exact: k7q2m9x4v1tz8}}}]
    route: [{destination: {host: fork}}]
  - route: [{destination: {host: customer}}]
`)
	for key, want := range map[string]string{"k7q2m9x4v1tz8": "fork", "another": "customer"} {
		w.Eventually(fmt.Sprintf("requests with the key %s reach %s", key, want), func() error {
			return served(t, key, want)
		})
	}
	m.Synced()
}

// served returns an error unless a request with a key is answered by the Service that it is to
// reach.
func served(t *testing.T, key, want string) error {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://customer.app:%d/", Port), http.NoBody)
	if err != nil {
		return err
	}
	request.Header.Set("sd-routing-key", key)
	answer, err := Client(net.IPv4(127, 0, 0, 1)).Do(request)
	if err != nil {
		return err
	}
	if err := answer.Body.Close(); err != nil {
		return err
	}
	if got := answer.Header.Get(ServedBy); answer.StatusCode != http.StatusOK || got != want {
		return fmt.Errorf("answered %d by %q, not by %q", answer.StatusCode, got, want)
	}
	return nil
}
