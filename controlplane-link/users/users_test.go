package users

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"switchyard.dev/controlplane-link/credentials"
	"switchyard.dev/eventbus/reread"
)

// TestGuessesWait measures how long answers to requests of one connection wait that have no key, or another one.
func TestGuessesWait(t *testing.T) {
	file := filepath.Join(t.TempDir(), "credentials.yaml")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := reread.Open(file, credentials.Parse)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		h := &Handler{keys: File{keys}, logger: slog.New(slog.DiscardHandler), requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "requests"}, []string{"result"})}
		guess := strings.Repeat("k", 64)
		for name, sent := range map[string][]string{"a client that is asked for its key": {"", guess}, "none each time": {"", "", ""}, "guesses": {guess, guess}} {
			ctx := connected(t.Context(), nil)
			for i, key := range sent {
				r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://web.shop.svc/", nil)
				if key != "" {
					r.Header.Set("Signadot-Api-Key", key)
				}
				w, began := httptest.NewRecorder(), time.Now()
				h.ServeHTTP(w, r)
				want := map[bool]time.Duration{true: 0, false: refusedAfter}[i == 0 && key == ""]
				if took := time.Since(began); took != want || w.Code != http.StatusProxyAuthRequired {
					t.Errorf("%s: answer %d has status %d after %s", name, i+1, w.Code, took)
				}
			}
		}
	})
}
