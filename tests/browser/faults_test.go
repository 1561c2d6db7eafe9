package browser_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"switchyard.dev/tests/browser"
)

// start starts a browser, or skips the test on a machine that has none.
func start(t *testing.T, c browser.Config) *browser.Browser {
	t.Helper()
	if err := browser.Installed(); err != nil {
		t.Skip(err)
	}
	b, err := browser.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// A page with a fault of each kind: the browser reports them.
func TestFaultsAreFound(t *testing.T) {
	requested := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requested <- r.Host
		_, _ = io.WriteString(w, `<!doctype html><title>Faults</title><img src="http://other.example.com/x.png"><p style="color: #ccc; background: #fff">pale</p>
			<script>console.error("broken"); undefined.x</script>`)
	}))
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	b := start(t, browser.Config{Hosts: map[string]string{"*.example.net": net.JoinHostPort(at.Hostname(), at.Port())}})
	script, err := browser.Axe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Open("http://page.example.net/"); err != nil {
		t.Fatal(err)
	}
	if host := <-requested; host != "page.example.net" {
		t.Errorf("the server had a request for %q", host)
	}
	found, err := b.Audit(script)
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range []string{"color-contrast", "image-alt", "html-has-lang"} {
		if !slices.ContainsFunc(found, func(f browser.Finding) bool { return f.ID == rule }) {
			t.Errorf("axe-core has not found %s: %v", rule, found)
		}
	}
	traffic, err := b.Traffic()
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(traffic.Console, "\n")
	for _, part := range []string{"console.error: \"broken\"", "exception: Uncaught TypeError", "ERR_NAME_NOT_RESOLVED"} {
		if !strings.Contains(text, part) {
			t.Errorf("the console has no %q: %s", part, text)
		}
	}
	received := map[string]float64{}
	for _, r := range traffic.Requests {
		received[r.URL] += r.Bytes
	}
	if _, foreign := received["http://other.example.com/x.png"]; !foreign || received["http://page.example.net/"] < 200 {
		t.Errorf("requests: %+v", traffic.Requests)
	}
}
