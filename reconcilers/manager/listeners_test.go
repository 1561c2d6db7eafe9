package manager_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/eventbus/memory"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/tests/world"
)

// Whoever keeps many connections open to the listeners for probes and metrics keeps neither
// the kubelet nor Prometheus out, and takes no more than so many.
func TestProbesAndMetricsAreAnsweredBesideSilentConnections(t *testing.T) {
	const many, mayStay = 600, 256
	m, err := manager.New(t.Context(), manager.Config{
		REST: world.Shared(t).As(""), Log: memory.New(), WithoutWebhook: true, SeveralInProcess: true,
		MetricsAddress: "127.0.0.1:0", HealthAddress: "127.0.0.1:0", Namespace: "listeners", Logger: world.Quiet,
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- m.Run(t.Context()) }()
	health, metrics := m.Addresses()
	for _, at := range []struct{ address, path, says string }{
		{health.String(), "/healthz", "ok"}, {health.String(), "/readyz", "ok"}, {metrics.String(), "/metrics", "go_goroutines"},
	} {
		var closed atomic.Int64
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}, Timeout: 5 * time.Second}
		for range many {
			conn, err := dialer.Dial("tcp", at.address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			go func() {
				_, _ = conn.Read(make([]byte, 1))
				closed.Add(1)
			}()
		}
		answer, err := (&http.Client{Timeout: 5 * time.Second}).Get("http://" + at.address + at.path)
		if err != nil {
			t.Fatalf("%s: %v", at.path, err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(text), at.says) {
			t.Errorf("%s: %s, %v: %.100s", at.path, answer.Status, err, text)
		}
		// Sooner than their deadline for a request, which would close them too.
		for deadline := time.Now().Add(3 * time.Second); closed.Load() < many-mayStay; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal(fmt.Errorf("%s: %d of %d silent connections stay", at.path, many-closed.Load(), many))
			}
		}
	}
	select {
	case err := <-done:
		t.Errorf("the manager ended: %v", err)
	default:
	}
}
