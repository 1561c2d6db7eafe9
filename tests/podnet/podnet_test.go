package podnet

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"switchyard.dev/tools/traffic"
)

func TestMain(m *testing.M) {
	if err := Isolate(); err != nil {
		fmt.Fprintln(os.Stderr, "podnet:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestAPodIsReachedFromTheTestAndReachesIt(t *testing.T) {
	pod, err := NewPod(200)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pod.Close(); err != nil {
			t.Error(err)
		}
	})
	inside, err := pod.Listen(8080)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.RemoteAddr)
	})}
	go func() { _ = server.Serve(inside) }()
	t.Cleanup(func() { _ = server.Close() })
	client := &http.Client{Timeout: 5 * time.Second}
	for ip, host := range map[string]net.IP{pod.IP.String(): pod.Host, pod.IP6.String(): pod.Host6} {
		body, err := traffic.Fetch(t.Context(), client, "http://"+net.JoinHostPort(ip, "8080"))
		if err != nil {
			t.Fatal(err)
		}
		if seen, _, _ := net.SplitHostPort(string(body)); seen != host.String() {
			t.Errorf("the pod at %s saw %s, want %s", ip, body, host)
		}
	}
}
