package rest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
)

// without is a Handler without stores, and its log.
func without() (*Handler, *bytes.Buffer) {
	log := &bytes.Buffer{}
	return New(Config{LoginURL: "x", Now: time.Now, Logger: slog.New(slog.NewJSONHandler(log, nil))}), log
}

func answered(h *Handler, req *http.Request) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w.Code, w.Body.String()
}

// The bodies of all requests that are decoded have a bound, and the share of a request is free after it.
func TestBodiesOfAllRequestsHaveABound(t *testing.T) {
	h, _ := without()
	refresh := func(ctx context.Context) int {
		status, _ := answered(h, httptest.NewRequestWithContext(ctx, "POST", "/api/v2/auth/device/token/refresh", strings.NewReader("[1,2,3]")))
		return status
	}
	if got := refresh(t.Context()); got != http.StatusBadRequest {
		t.Errorf("status %d", got)
	}
	if !h.bodies.TryAcquire(maxBodies - 6) {
		t.Fatal("the share of a request was not released")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got := refresh(ended); got != http.StatusServiceUnavailable {
		t.Errorf("without space for its body: status %d", got)
	}
	h.bodies.Release(1)
	if got := refresh(t.Context()); got != http.StatusBadRequest {
		t.Errorf("status %d", got)
	}
}

// A bounded number of credentials is checked at once.
func TestChecksOfCredentialsHaveABound(t *testing.T) {
	h, _ := without()
	for n := range 2 {
		if _, err := h.checks.Enter(t.Context(), model.Digest{byte(n)}, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	ended, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	req := httptest.NewRequestWithContext(ended, "GET", "/api/v2/orgs/", nil)
	req.Header.Set(headerAPIKey, "key")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	if text := w.Body.String(); w.Code != http.StatusServiceUnavailable || !strings.Contains(text, "send it again") || w.Header().Get("Retry-After") != "1" {
		t.Errorf("%d %s %v", w.Code, text, w.Header())
	}
}

// Clients without a credential count by the group of their address.
func TestClientsWithoutACredentialCountByTheirAddressGroup(t *testing.T) {
	h, _ := without()
	refresh := func(address string) int {
		req := httptest.NewRequestWithContext(t.Context(), "POST", "/api/v2/auth/device/token/refresh", http.NoBody)
		req.RemoteAddr = address
		status, _ := answered(h, req)
		return status
	}
	refused := 0
	for i := range 4 * inARow {
		if refresh("[2001:db8::"+string("0123456789abcdef"[i%16])+"]:1234") == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused == 0 {
		t.Error("addresses of one network of IPv6 have no common limit")
	}
	if got := refresh("[2001:db8:1::1]:1234"); got != http.StatusBadRequest {
		t.Errorf("another network: status %d", got)
	}
}

func TestStatusesOfErrors(t *testing.T) {
	for err, want := range map[error]int{
		model.ErrText: 400, model.ErrNotFound: 404, model.ErrExists: 409, model.ErrInUse: 409, model.ErrMoved: 409, model.ErrDeleting: 409, model.ErrHeld: 409,
		model.ErrKeyTaken: 503, context.Canceled: 503, io.ErrUnexpectedEOF: 500,
	} {
		if got, text := statusOf(fmt.Errorf("x: %w", err)); got != want || got == 500 && text != "internal error" {
			t.Errorf("%v: %d %s, want %d", err, got, text, want)
		}
	}
}

// The log has the stack of a panic, and the error of an answer that is no JSON.
func TestFaultsAreInTheLog(t *testing.T) {
	h, log := without()
	req := httptest.NewRequestWithContext(t.Context(), "GET", "/api/v2/orgs/acme/sandboxes", nil)
	req.Header.Set(headerAPIKey, "key")
	status, text := answered(h, req)
	if status != http.StatusInternalServerError || !strings.Contains(text, "internal error") || !strings.Contains(log.String(), "authenticate") ||
		!strings.Contains(log.String(), `"operation":"listSandboxes","organisation":"acme"`) {
		t.Errorf("%d %s, log %s", status, text, log)
	}
	log.Reset()
	w := httptest.NewRecorder()
	h.write(w, &request{Request: req, id: "req-1", status: http.StatusOK}, func() {})
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "req-1") || !strings.Contains(log.String(), "unsupported type") || !strings.Contains(log.String(), "req-1") {
		t.Errorf("%d %s, log %s", w.Code, w.Body, log)
	}
	defer func() {
		if recover() == nil {
			t.Error("an entry of the audit trail was lost")
		}
	}()
	(&request{Request: req}).event("x", tree{"x": func() {}})
}

// An address is refused before the store is asked, whatever credentials it sends; other addresses are not.
func TestChecksForAnAddressAreLimited(t *testing.T) {
	h, log := without() // a check panics without a store
	try := func(address string, n int) int {
		req := httptest.NewRequestWithContext(t.Context(), "GET", "/api/v2/orgs/", nil)
		req.RemoteAddr = address
		req.Header.Set(headerAPIKey, fmt.Sprint("guess", n))
		status, _ := answered(h, req)
		return status
	}
	refused := 0
	for n := range 4 * anAddress * inARow {
		if try("192.0.2.1:1234", n) == http.StatusTooManyRequests {
			refused++
		}
		log.Reset()
	}
	if refused == 0 {
		t.Error("one address can have any number of credentials checked")
	}
	if got := try("192.0.2.2:1234", 0); got != http.StatusInternalServerError {
		t.Errorf("another address: status %d", got)
	}
}
