package node_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	socks5 "golang.org/x/net/proxy"

	"switchyard.dev/tests/meshes/node"
	"switchyard.dev/tools/wait"
)

// TestTunnelsReachWorkloadsThatRequireTLSOfTheMesh reaches a workload through a tunnel proxy. The value
// istio.operator.podLabels puts the tunnel proxy's pod into the mesh, and the workload refuses clients without a
// proxy.
func TestTunnelsReachWorkloadsThatRequireTLSOfTheMesh(t *testing.T) {
	s := open(t)
	const url = "http://driver.mesh-shop.svc.cluster.local:8080/chain"
	if err := node.Install(t.Context(), root, "istio.enabled=true", "tunnel.config.anonymousSOCKS5=true"); err != nil {
		t.Fatal(err)
	}
	for _, app := range []string{"tunnel-proxy", "signadot-agent"} {
		if containers := s.kubectl("", "get", "pods", "-n", "signadot", "-l", "app="+app, "-o", "jsonpath={.items[*].spec['initContainers','containers'][*].name}"); !strings.Contains(containers, "istio-proxy") {
			t.Errorf("the pods of %s have no proxy: %s", app, containers)
		}
	}
	s.apply(`
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: strict, namespace: mesh-shop}
spec: {mtls: {mode: STRICT}}
`)
	s.refusesPlain("driver", url)
	address := s.kubectl("", "get", "service", "tunnel-proxy", "-n", "signadot", "-o", "jsonpath={.spec.clusterIP}")
	through, err := socks5.SOCKS5("tcp", net.JoinHostPort(address, "1080"), nil, socks5.Direct)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{Dial: through.Dial, DisableKeepAlives: true}} //nolint:staticcheck // what the library has
	wait.Eventually(t, 2*time.Minute, "a request through a tunnel proxy", func() error {
		text, err := answered(client, url)
		if err == nil && text != "driver" {
			err = fmt.Errorf("it is answered %q", text)
		}
		return err
	})
}

// refusesPlain waits until a Service refuses clients that are not in the mesh.
func (s shop) refusesPlain(service, url string) {
	s.Helper()
	client := s.to(service)
	wait.Eventually(s, 2*time.Minute, "the refusal of a client without a proxy", func() error {
		text, err := answered(client, url)
		if err == nil {
			return fmt.Errorf("it is answered %q", text)
		}
		return nil
	})
}

// answered returns the answer of a URL.
func answered(client *http.Client, url string) (string, error) {
	answer, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", answer.StatusCode, text)
	}
	return strings.TrimSpace(string(text)), err
}
