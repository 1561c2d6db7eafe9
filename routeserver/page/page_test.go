package page_test

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"switchyard.dev/routeserver/page"
)

// The text of the page has markup, and its style is the one that the policy allows.
func TestAMessageIsSelfContained(t *testing.T) {
	m := page.Message{Status: http.StatusForbidden, Title: "No <b>access</b>", Text: []string{"Ask <script>alert(1)</script>."}, Links: []page.Link{{Text: "Log in", URL: "javascript:alert(1)"}}}
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Accept", "text/html,*/*;q=0.8")
	w := httptest.NewRecorder()
	m.ServeHTTP(w, r)
	body := w.Body.String()
	_, rest, _ := strings.Cut(body, "<style>")
	style, _, _ := strings.Cut(rest, "</style>")
	sum := sha256.Sum256([]byte(style))
	policy := w.Header().Get("Content-Security-Policy")
	if hash := "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !strings.Contains(policy, hash) || len(style) < 1000 {
		t.Errorf("the policy %q does not allow the style %s of %d bytes", policy, hash, len(style))
	}
	if w.Code != http.StatusForbidden || !strings.Contains(body, "No &lt;b&gt;access") || strings.Contains(body, "<script") || strings.Contains(body, `"javascript:`) {
		t.Errorf("status %d:\n%s", w.Code, body)
	}
}

func TestAMessageIsTextForOtherClients(t *testing.T) {
	w := httptest.NewRecorder()
	page.Message{Title: "Not found", Text: []string{"There is no such preview."}}.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if got := w.Body.String(); got != "Not found. There is no such preview.\n" || w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
		t.Errorf("status %d, %q of type %q", w.Code, got, w.Header().Get("Content-Type"))
	}
}
