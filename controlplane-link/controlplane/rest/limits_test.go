package rest

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/rest/work"
	"switchyard.dev/eventbus/callers"
)

// without is a Handler without stores, and its log.
func without() (*Handler, *bytes.Buffer) {
	log := &bytes.Buffer{}
	return New(Config{LoginURL: "x", Now: time.Now, Refused: callers.Refused, Logger: slog.New(slog.NewJSONHandler(log, nil))}), log
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
	h.write(w, &request{Call: work.Call{Request: req}, id: "req-1", status: http.StatusOK}, func() {})
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "req-1") || !strings.Contains(log.String(), "unsupported type") || !strings.Contains(log.String(), "req-1") {
		t.Errorf("%d %s, log %s", w.Code, w.Body, log)
	}
	defer func() {
		if recover() == nil {
			t.Error("an entry of the audit trail was lost")
		}
	}()
	(&request{Call: work.Call{Request: req}}).Event("x", tree{"x": func() {}})
}

// An address is refused before the store is asked, whatever unknown credentials it sends; other addresses and credentials
// that were valid lately are not. Guesses wait for their answer. The clock stands still while others do.
func TestChecksForAnAddressAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := without() // a check panics without a store
		try := func(address, key string) (int, time.Duration) {
			req, begun := httptest.NewRequestWithContext(t.Context(), "GET", "/api/v2/orgs/", nil), time.Now()
			req.RemoteAddr = address
			req.Header.Set(headerAPIKey, key)
			status, _ := answered(h, req)
			return status, time.Since(begun)
		}
		find := func(key string) time.Duration {
			req, begun := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil), time.Now()
			req.Header.Set(headerAPIKey, key)
			if status, _ := answered(h, req); status != http.StatusNotFound {
				t.Errorf("status %d", status)
			}
			return time.Since(begun)
		}
		leave, err := h.checks.Enter(t.Context(), model.DigestOf("known"), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		leave(true)
		var all sync.WaitGroup
		var refused, quick atomic.Int64
		for n := range 2 * checksInARow {
			all.Go(func() {
				status, took := try(fmt.Sprint("192.0.2.1:", n+1), fmt.Sprint("guess", n))
				if status == http.StatusTooManyRequests {
					refused.Add(1)
				}
				if took == 0 {
					quick.Add(1)
				}
			})
		}
		synctest.Wait()
		if got := find("known"); got != 0 {
			t.Errorf("a path that does not exist, with a credential that was valid lately: after %s", got)
		}
		if got, took := try("192.0.2.1:9999", "known"); got != http.StatusInternalServerError || took != 0 {
			t.Errorf("a credential that was valid lately: status %d after %s", got, took)
		}
		if got := find("guess"); got == 0 {
			t.Error("a guess for a path that does not exist has an answer at once")
		}
		if got, _ := try("192.0.2.2:1234", "guess"); got != http.StatusInternalServerError {
			t.Errorf("another address: status %d", got)
		}
		all.Wait()
		if refused.Load() != checksInARow || quick.Load() != 0 {
			t.Errorf("of %d guesses %d are refused, and %d do not wait", 2*checksInARow, refused.Load(), quick.Load())
		}
	})
}
