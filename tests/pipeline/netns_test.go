package pipeline

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

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
		io.WriteString(w, r.RemoteAddr)
	})}
	go server.Serve(inside)
	t.Cleanup(func() { server.Close() })
	client := &http.Client{Timeout: 5 * time.Second}
	resp, err := client.Get("http://" + net.JoinHostPort(pod.IP.String(), "8080"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if host, _, _ := net.SplitHostPort(string(body)); host != pod.Host.String() {
		t.Errorf("the pod saw %s, want %s", body, pod.Host)
	}
}
