package users

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"switchyard.dev/controlplane-link/credentials"
	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/trust/trusttest"
)

// broken are keys that cannot be read in an unexpected way.
type broken struct{ Keys }

func (broken) Find(context.Context, string, string) (*credentials.Key, error) { panic("canary") }

// TestAPanicIsLogged, and a handshake that fails is not an error.
func TestAPanicIsLogged(t *testing.T) {
	var text bytes.Buffer
	log := slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug}))
	all, err := callers.Listeners(map[string]string{"proxy": "127.0.0.1:0"}, 10, prometheus.NewRegistry(), "closed_total", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	h, err := New(broken{}, nil, all["proxy"], nil, prometheus.NewRegistry(), log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	authority, roots := trusttest.New(t, "acme"), x509.NewCertPool()
	go func() { ended <- h.Serve(ctx, trusttest.Server(t, authority.Leaf(t, "127.0.0.1"))) }()
	for _, trusted := range []bool{false, true} {
		if trusted {
			roots.AppendCertsFromPEM(authority.Bundle())
		}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
		answer, err := client.Get("https://" + all["proxy"].Addr().String())
		if err == nil {
			_, err = io.Copy(io.Discard, answer.Body)
			t.Errorf("answered %d, %v", answer.StatusCode, err)
		}
		client.CloseIdleConnections()
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	var debug, failed string
	for line := range strings.Lines(text.String()) {
		switch {
		case strings.Contains(line, "level=DEBUG"):
			debug += line
		case strings.Contains(line, "level=ERROR"):
			failed += line
		}
	}
	if !strings.Contains(debug, "TLS handshake error") || !strings.Contains(failed, "canary") || !strings.Contains(failed, "panic_test.go") || strings.Count(failed, "\n") != 1 {
		t.Errorf("the log is:\n%s", text.String())
	}
}
