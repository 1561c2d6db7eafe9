package login_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"switchyard.dev/controlplane-link/preview/access"
)

// A person with a session gets a code for a preview of the own organisation, and for no other host.
func TestAPreviewAsksForASession(t *testing.T) {
	w := newWorld(t, nil)
	w.config.Previews = func(host string) (access.Site, bool) {
		host, _, _ = strings.Cut(host, ":")
		org, domain, is := strings.Cut(host, ".")
		return access.Site{Organisation: strings.TrimPrefix(org, "web--"), Domain: domain, Host: host}, is && domain == "preview.example.net"
	}
	w.replica()
	query := func(c access.Code) string { return strings.TrimPrefix(c.Ask(w.config.Keys), "/login/") }
	b := w.browser()
	follow := b.client.CheckRedirect
	stop := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	ask := access.Code{Host: "web--acme.preview.example.net:8445", To: "/a?b=c&d", Until: w.now().Add(time.Minute)}
	v := b.page(query(ask)).want(http.StatusOK, "To open the preview web--acme.preview.example.net, log in first")
	var last *url.URL
	b.client.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if last = r.URL; r.URL.Path == "/.switchyard/session" {
			return http.ErrUseLastResponse
		}
		return nil
	}
	v.follow("Log in at")
	if last == nil || last.Host != ask.Host || last.Scheme != "https" || last.Query().Get("code") == "" {
		t.Fatalf("after the login: %v", last)
	}
	b.client.CheckRedirect = stop
	if v := b.page(query(ask)); v.status != http.StatusSeeOther || !strings.HasPrefix(v.header.Get("Location"), "https://"+ask.Host+"/.switchyard/session?code=") || v.header.Get("Cache-Control") != "no-store" {
		t.Errorf("with a session: %d, %v", v.status, v.header)
	}
	for host, want := range map[string]int{"web--other.preview.example.net": http.StatusForbidden, "web--acme.evil.example": http.StatusNotFound, "evil.example/web--acme.preview.example.net": http.StatusNotFound, "": http.StatusNotFound} {
		q := ask
		q.Host = host
		if v := b.page(query(q)); v.status != want || v.header.Get("Location") != "" {
			t.Errorf("%q: %d, %v", host, v.status, v.header)
		}
	}
	b.page("preview").want(http.StatusNotFound, "There is no such preview")
	b.page("preview?"+url.Values{"host": {ask.Host}, "to": {"/"}, "nonce": {strings.Repeat("0", 64)}}.Encode()).want(http.StatusNotFound, "There is no such preview")
	expired := ask
	expired.Until = w.now()
	b.page(query(expired)).want(http.StatusNotFound, "has expired")
	b.client.CheckRedirect = follow
	b.page("device").submit("Log out")
	b.page(query(ask)).want(http.StatusOK, "log in first")
	w.config.Previews = nil
	w.replica()
	b.page(query(ask)).want(http.StatusNotFound, "There is no such preview")
}
