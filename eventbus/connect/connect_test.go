package connect_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go"

	"switchyard.dev/eventbus/connect"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/jetstream"
	"switchyard.dev/eventbus/logtest"
)

func TestAnUnansweredClientFailsAtOnce(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("any"), 0o600); err != nil {
		t.Fatal(err)
	}
	log, conn, err := connect.Open(connect.Config{
		URL: "nats://127.0.0.1:1", Role: connect.Writer, TokenFile: token, Logger: slog.New(slog.DiscardHandler),
	}, jetstream.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := log.Tip(t.Context()); err == nil || t.Context().Err() != nil {
		t.Errorf("Tip: %v", err)
	}
	if _, _, err := log.Newest(t.Context(), event.RoutingKey("a")); err == nil {
		t.Error("Newest gives no error")
	}
	if _, err := log.Append(t.Context(), logtest.Fact("a", 1), 0); err == nil {
		t.Error("Append gives no error")
	}
	if err := conn.Publish("routing.x", nil); !errors.Is(err, nats.ErrReconnectBufExceeded) {
		t.Errorf("what cannot be sent is kept for later: %v", err)
	}
}

func TestBadConfigurationIsRefused(t *testing.T) {
	good := connect.Config{URL: "nats://bus:4222, tls://10.0.0.1:4222", Role: connect.Follower}
	if err := good.Validate(); err != nil {
		t.Errorf("a good one: %v", err)
	}
	for what, change := range map[string]func(*connect.Config){
		"no URL":                      func(c *connect.Config) { c.URL = "" },
		"a URL without host":          func(c *connect.Config) { c.URL = "4222" },
		"no role":                     func(c *connect.Config) { c.Role = 0 },
		"two identities":              func(c *connect.Config) { c.TokenFile, c.CredentialsFile = "a", "b" },
		"a certificate without a key": func(c *connect.Config) { c.CertFile = "a" },
		"a key without a certificate": func(c *connect.Config) { c.KeyFile = "a" },
	} {
		c := good
		change(&c)
		if conn, err := connect.Dial(c); err == nil {
			conn.Close()
			t.Errorf("%s: no error", what)
		}
	}
	missing := good
	missing.CAFile = filepath.Join(t.TempDir(), "none")
	if conn, err := connect.Dial(missing); err == nil {
		conn.Close()
		t.Error("a missing certificate authority: no error")
	}
}
