package access

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store/seal"
	"switchyard.dev/controlplane-link/credentials"
)

const pageOrigin = "https://control.example.com"

var (
	site  = Site{"acme", "preview.example.net", "web--cart.preview.example.net"}
	other = Site{"acme", "preview.example.net", "api--cart.preview.example.net"}
)

// known are Keys by their secrets.
type known struct {
	keys           map[string]*credentials.Key
	changes, reads int
	err            error
}

func (k *known) Changes() uint64 { return uint64(k.changes) } //nolint:gosec // it is small
func (k *known) FindDigest(_ context.Context, d model.Digest, _ string) (*credentials.Key, error) {
	k.reads++
	for secret, key := range k.keys {
		if model.DigestOf(secret) == d {
			return key, k.err
		}
	}
	return nil, k.err
}

func (k *known) WhileValid(ctx context.Context, _ *credentials.Key, _ string) { <-ctx.Done() }

// world is an Access with a session, an API key, a token, and a key of another organisation.
type world struct {
	*Access
	keys *known
	now  time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	k, err := seal.Parse("first " + base64.StdEncoding.EncodeToString(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{now: time.Now(), keys: &known{keys: map[string]*credentials.Key{
		"session": {Organisation: "acme", User: "jo"}, "key": {Organisation: "acme", User: "ci"}, "token": {Organisation: "acme", User: "device"}, "foreign": {Organisation: "other", User: "eve"},
	}}}
	w.Access = New(Config{Keys: w.keys, Seal: k, Now: func() time.Time { return w.now }, Page: pageOrigin, Logger: slog.New(slog.DiscardHandler)})
	return w
}

// session returns the cookie of a session at a preview.
func (w *world) session(s Site, secret string) string {
	d := model.DigestOf(secret)
	return sessionCookie(s) + "=" + sealed(w.Seal, sessionPlace(s), string(d[:]))
}

// request returns a request to the preview, with headers as name, value.
func request(method, target string, headers ...string) *http.Request {
	r := httptest.NewRequest(method, target, nil)
	r.Host = site.Host
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

// outcome describes the result of a request: the user, or the answer.
func (w *world) outcome(r *http.Request, s Site) (string, *http.Response) {
	v, answer := w.Decide(r, s)
	if answer == nil {
		return "user " + v.User, nil
	}
	rec := httptest.NewRecorder()
	answer.ServeHTTP(rec, r)
	res := rec.Result()
	to, _, _ := strings.Cut(res.Header.Get("Location"), "?")
	return strings.TrimSpace(fmt.Sprintf("%d %s", res.StatusCode, to)), res
}

// kinds are requests that differ in what can be answered to them.
var kinds = map[string][]string{
	"page":      {"Accept", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document", "Sec-Fetch-Site", "none"},
	"frame":     {"Accept", "text/html", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe", "Sec-Fetch-Site", "cross-site"},
	"script":    {"Accept", "*/*", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Site", "same-origin"},
	"fetched":   {"Accept", "text/html", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Site", "same-origin"},
	"events":    {"Accept", "text/event-stream"},
	"options":   {"Accept", "text/html"},
	"websocket": {"Connection", "Upgrade", "Upgrade", "websocket", "Origin", "https://" + site.Host, "Accept", "text/html"},
	"grpc":      {"Content-Type", "application/grpc", "Te", "trailers"},
}

// TestKinds: only a page in a window of its own is redirected to the login, and a credential counts for all kinds alike.
func TestKinds(t *testing.T) {
	w := newWorld(t)
	sent := map[string][]string{
		"none": nil, "session": {"Cookie", w.session(site, "session")}, "ended": {"Cookie", w.session(site, "gone")}, "damaged": {"Cookie", sessionCookie(site) + "=x"},
		"another preview's": {"Cookie", w.session(other, "session")}, "of another organisation": {"Cookie", w.session(site, "foreign")},
		"two, the first ended": {"Cookie", w.session(site, "gone") + "; " + w.session(site, "session")}, "two, the second ended": {"Cookie", w.session(site, "session") + "; " + w.session(site, "gone")},
		"key": {"Signadot-Api-Key", "key"}, "unknown key": {"Signadot-Api-Key", "guess"}, "key of another organisation": {"Signadot-Api-Key", "foreign"},
		"token": {"Authorization", "bearer token"}, "application's token": {"Authorization", "Bearer jwt"}, "basic": {"Authorization", "Basic a2V5OmtleQ=="},
		"session and application's token": {"Cookie", w.session(site, "session"), "Authorization", "Bearer jwt"}, "ended and key": {"Cookie", w.session(site, "gone"), "Signadot-Api-Key", "key"},
		"session and unknown key": {"Cookie", w.session(site, "session"), "Signadot-Api-Key", "guess"}, "key and application's token": {"Signadot-Api-Key", "key", "Authorization", "Bearer jwt"},
	}
	users := map[string]string{
		"session": "jo", "two, the first ended": "jo", "two, the second ended": "jo", "key": "ci", "token": "device", "session and application's token": "jo",
		"ended and key": "ci", "session and unknown key": "jo", "key and application's token": "ci",
	}
	for kind, headers := range kinds {
		for credential, more := range sent {
			method := map[string]string{"options": "OPTIONS", "grpc": "POST"}[kind]
			r := request(method, "/a?b=c", slices.Concat(headers, more)...)
			want := "401"
			switch {
			case users[credential] != "":
				want = "user " + users[credential]
			case credential == "key of another organisation":
				want = "403"
			case kind == "page":
				want = "303 " + pageOrigin + LoginPath
			}
			if got, _ := w.outcome(r, site); got != want {
				t.Errorf("%s with %s: %s, want %s", kind, credential, got, want)
			}
			if r.Header.Get("Signadot-Api-Key") != "" || strings.Contains(r.Header.Get("Cookie"), cookiePrefix) {
				t.Errorf("%s with %s: our credentials remain: %v", kind, credential, r.Header)
			}
			if got, want := r.Header.Get("Authorization"), http.Header.Get(http.Header{"Authorization": more}, "Authorization"); credential == "token" && got != "" ||
				strings.Contains(credential, "application's token") && got != "Bearer jwt" || credential == "basic" && got == "" {
				t.Errorf("%s with %s: Authorization %q, had %q", kind, credential, got, want)
			}
		}
	}
}

// TestOrigins: a cookie counts for WebSockets of the preview's own pages, and for writes of previews of its domain.
func TestOrigins(t *testing.T) {
	w := newWorld(t)
	cookie, own := w.session(site, "session"), "https://"+site.Host
	for _, test := range []struct {
		name, method, host string
		headers            []string
		want               string
	}{
		{"own WebSocket", "GET", "", []string{"Upgrade", "websocket", "Origin", own, "Cookie", cookie}, "user jo"},
		{"own WebSocket at a port", "GET", site.Host + ":8445", []string{"Upgrade", "websocket", "Origin", own + ":8445", "Cookie", cookie}, "user jo"},
		{"own WebSocket, host in capitals and with the default port", "GET", strings.ToUpper(site.Host) + ":443", []string{"Upgrade", "websocket", "Origin", own, "Cookie", cookie}, "user jo"},
		{"WebSocket of another port", "GET", "", []string{"Upgrade", "websocket", "Origin", own + ":8445", "Cookie", cookie}, "403"},
		{"WebSocket of another preview", "GET", "", []string{"Upgrade", "websocket", "Origin", "https://" + other.Host, "Cookie", cookie}, "403"},
		{"WebSocket of another preview, with a token of the application", "GET", "", []string{"Upgrade", "websocket", "Origin", "https://" + other.Host, "Cookie", cookie, "Authorization", "Bearer jwt"}, "403"},
		{"WebSocket without origin", "GET", "", []string{"Upgrade", "websocket", "Cookie", cookie}, "403"},
		{"WebSocket with a key, without origin", "GET", "", []string{"Upgrade", "websocket", "Signadot-Api-Key", "key"}, "user ci"},
		{"WebSocket with a key, own", "GET", "", []string{"Upgrade", "websocket", "Origin", own, "Signadot-Api-Key", "key"}, "user ci"},
		{"WebSocket with a key, of another site", "GET", "", []string{"Upgrade", "websocket", "Origin", "https://evil.example", "Signadot-Api-Key", "key"}, "403"},
		{"WebSocket over HTTP/2 of another preview", "CONNECT", "", []string{"Origin", "https://" + other.Host, "Cookie", cookie}, "403"},
		{"write of the preview", "POST", "", []string{"Sec-Fetch-Site", "same-origin", "Origin", own, "Cookie", cookie}, "user jo"},
		{"write of another preview", "PUT", "", []string{"Sec-Fetch-Site", "same-site", "Origin", "https://" + other.Host, "Cookie", cookie}, "user jo"},
		{"write of another preview, at a port", "PUT", "", []string{"Sec-Fetch-Site", "same-site", "Origin", "https://" + other.Host + ":8445", "Cookie", cookie}, "user jo"},
		{"write of another organisation's preview", "POST", "", []string{"Sec-Fetch-Site", "same-site", "Origin", "https://web--cart.other.example.net", "Cookie", cookie}, "403"},
		{"write of another organisation's preview, old browser", "POST", "", []string{"Origin", "https://web--cart.other.example.net", "Cookie", cookie}, "403"},
		{"write of a host above the domain", "POST", "", []string{"Sec-Fetch-Site", "same-site", "Origin", "https://example.net", "Cookie", cookie}, "403"},
		{"write of a name that ends like the domain", "POST", "", []string{"Sec-Fetch-Site", "same-site", "Origin", "https://evilpreview.example.net", "Cookie", cookie}, "403"},
		{"write of the same site without TLS", "POST", "", []string{"Sec-Fetch-Site", "same-site", "Origin", "http://" + other.Host, "Cookie", cookie}, "403"},
		{"write of the same site without origin", "POST", "", []string{"Sec-Fetch-Site", "same-site", "Origin", "null", "Cookie", cookie}, "403"},
		{"write of another site", "POST", "", []string{"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example", "Cookie", cookie}, "403"},
		{"write of another site, old browser", "DELETE", "", []string{"Origin", "https://evil.example", "Cookie", cookie}, "403"},
		{"write of another site, old browser without origin", "POST", "", []string{"Origin", "null", "Cookie", cookie}, "403"},
		{"write of another preview, old browser", "POST", "", []string{"Origin", "https://" + other.Host, "Cookie", cookie}, "user jo"},
		{"write of another site with a key", "POST", "", []string{"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example", "Cookie", cookie, "Signadot-Api-Key", "key"}, "user ci"},
		{"write of a program", "POST", "", []string{"Cookie", cookie}, "user jo"},
		{"read of another site", "GET", "", []string{"Sec-Fetch-Site", "cross-site", "Cookie", cookie}, "user jo"},
		{"form that was not sent", "POST", "", []string{"Accept", "text/html", "Sec-Fetch-Mode", "navigate"}, "401"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := request(test.method, "/", test.headers...)
			if test.host != "" {
				r.Host = test.host
			}
			if got, _ := w.outcome(r, site); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

// TestServiceWorkers: a preview gets no service worker, which could read a code, unless the value allows it.
func TestServiceWorkers(t *testing.T) {
	w := newWorld(t)
	sent := func() string {
		got, _ := w.outcome(request("GET", "/sw.js", "Service-Worker", "script", "Cookie", w.session(site, "session")), site)
		return got
	}
	if got := sent(); got != "403" {
		t.Errorf("a service worker: %s", got)
	}
	w.ServiceWorkers = true
	if got := sent(); got != "user jo" {
		t.Errorf("a service worker that the value allows: %s", got)
	}
}

// TestCookiesOfTheApplication: cookies of the application pass byte for byte.
func TestCookiesOfTheApplication(t *testing.T) {
	cookie := sessionCookie(site) + "=v+%2F"
	for _, test := range []struct{ sent, want []string }{
		{[]string{`a=1;b="2" ;  c=é%`}, []string{`a=1;b="2" ;  c=é%`}},
		{[]string{cookie}, nil},
		{[]string{cookie + "; a=1; b=2"}, []string{"a=1; b=2"}},
		{[]string{"a=1; " + cookie + ";b=2"}, []string{"a=1;b=2"}},
		{[]string{"a=1;  b = 2;; " + cookie}, []string{"a=1;  b = 2;"}},
		{[]string{cookie + ";" + nonceCookie(site) + "=x", "a=1"}, []string{"a=1"}},
		{[]string{"x" + cookie, cookiePrefix + "preview-of-another-domain=1"}, []string{"x" + cookie}},
		{[]string{"a=" + cookiePrefix + "preview-=1"}, []string{"a=" + cookiePrefix + "preview-=1"}},
		{nil, nil},
	} {
		h := http.Header{}
		if test.sent != nil {
			h["Cookie"] = slices.Clone(test.sent)
		}
		takeCookies(h)
		if got := h["Cookie"]; !slices.Equal(got, test.want) {
			t.Errorf("%q: %q, want %q", test.sent, got, test.want)
		}
	}
}

// TestDomains: code of previews has no rights on the page of logins.
func TestDomains(t *testing.T) {
	for _, test := range []struct{ domain, page, want string }{
		{"preview.example.net", "https://control.example.com", ""},
		{"example.net", "https://control.example.com:8443", ""},
		{"preview.example.co.uk", "https://control.other.co.uk", ""},
		{"acme.github.io", "https://control.github.io", ""},
		{"preview.localhost", "https://127.0.0.1:8443", ""},
		{"preview.localhost", "https://control.localhost", ""},
		{"localhost", "https://127.0.0.1", ""},
		{"preview.example.net", "", ""},
		{"preview.example.com", "https://control.example.com", "registrable domain example.com"},
		{"example.com", "https://CONTROL.example.com", "registrable domain"},
		{"preview.example.co.uk", "https://control.example.co.uk", "registrable domain"},
		{"preview.control.localhost", "https://control.localhost", "registrable domain"},
		{"localhost", "https://control.localhost", "registrable domain"},
		{"github.io", "https://control.github.io", "registrable domain"},
		{"127.0.0.1", "https://control.example.com", "cannot be a preview domain"},
	} {
		err := CheckDomain(test.domain, test.page)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s and %s: %v, want %q", test.domain, test.page, err, test.want)
		}
	}
}

// TestPreflights: a preflight passes without a credential, and with nothing else.
func TestPreflights(t *testing.T) {
	w := newWorld(t)
	headers := []string{"Origin", "https://" + other.Host, "Access-Control-Request-Method", "PUT", "Access-Control-Request-Headers", "x-a"}
	secrets := []string{"Cookie", "a=1", "Authorization", "Bearer jwt", "Signadot-Api-Key", "key", "X-Other", "1", "Accept", "text/html"}
	r := request("OPTIONS", "/a", slices.Concat(headers, secrets)...)
	v, answer := w.Decide(r, site)
	want := http.Header{"Origin": {"https://" + other.Host}, "Access-Control-Request-Method": {"PUT"}, "Access-Control-Request-Headers": {"x-a"}}
	if answer != nil || !v.Preflight || v.User != "" || fmt.Sprint(r.Header) != fmt.Sprint(want) || w.keys.reads != 0 {
		t.Errorf("%+v, answer %v, %v", v, answer, r.Header)
	}
	for name, change := range map[string]func(*http.Request){
		"method":       func(r *http.Request) { r.Method = "GET" },
		"no origin":    func(r *http.Request) { r.Header.Del("Origin") },
		"no request":   func(r *http.Request) { r.Header.Del("Access-Control-Request-Method") },
		"body":         func(r *http.Request) { r.ContentLength = 1 },
		"unknown body": func(r *http.Request) { r.ContentLength = -1 },
		"upgrade":      func(r *http.Request) { r.Header.Set("Upgrade", "websocket") },
	} {
		r := request("OPTIONS", "/a", headers...)
		change(r)
		if got, _ := w.outcome(r, site); got != "401" {
			t.Errorf("%s: %s", name, got)
		}
	}

	w.AnswersPreflights = true
	for from, allowed := range map[string]string{
		"https://" + other.Host: "https://" + other.Host, "https://" + site.Host + ":8445": "https://" + site.Host + ":8445",
		"http://" + other.Host: "", "https://preview.example.net": "", "https://evilpreview.example.net": "", "https://evil.example": "", "null": "",
	} {
		r := request("OPTIONS", "/a", "Origin", from, "Access-Control-Request-Method", "PUT", "Access-Control-Request-Headers", "x-a")
		if v, _ := w.Decide(r.Clone(t.Context()), site); !v.Preflight {
			t.Errorf("%s: the answer waits as a refusal", from)
		}
		got, res := w.outcome(r, site)
		if h := res.Header; got != "204" || h.Get("Access-Control-Allow-Origin") != allowed || (h.Get("Access-Control-Allow-Credentials") == "true") != (allowed != "") || allowed != "" && h.Get("Access-Control-Allow-Headers") != "x-a" {
			t.Errorf("%s: %s, %v", from, got, h)
		}
	}
}

// TestRateOfPreflights: an address has a bound of its own, and all have one. The clock stands still.
func TestRateOfPreflights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.AnswersPreflights = true
		sent := func(from string) string {
			ctx, done := context.WithCancel(t.Context())
			defer done()
			r := request("OPTIONS", "/a", "Origin", "https://"+other.Host, "Access-Control-Request-Method", "PUT").WithContext(ctx)
			r.RemoteAddr = from
			got, _ := w.outcome(r, site)
			return got
		}
		for range preflightsInARow {
			if got := sent("198.51.100.6:1"); got != "204" {
				t.Errorf("a preflight: %s", got)
			}
			synctest.Wait() // until it has ended
		}
		if got := sent("198.51.100.6:2"); got != "429" {
			t.Errorf("after %d preflights of an address: %s", preflightsInARow, got)
		}
		r := request("OPTIONS", "/a", "Origin", "https://"+other.Host, "Access-Control-Request-Method", "PUT")
		r.RemoteAddr = "198.51.100.6:2"
		if v, no := w.Decide(r, site); !v.Guesses || no == nil {
			t.Errorf("another one does not wait for its answer: %+v", v)
		}
		if got := sent("198.51.100.7:1"); got != "204" {
			t.Errorf("another address: %s", got)
		}
		for n := range preflightsOfAll { // they are under way until the end of the test
			r := request("OPTIONS", "/a", "Origin", "https://"+other.Host, "Access-Control-Request-Method", "PUT").WithContext(t.Context())
			r.RemoteAddr = fmt.Sprintf("198.51.%d.%d:1", n/16, n%16)
			w.outcome(r, site)
		}
		if got := sent("203.0.113.9:1"); got != "429" {
			t.Errorf("an address beside many preflights of others: %s", got)
		}
	})
}

// TestRateOfUnknownKeys: an address that guesses API keys or tokens causes a bounded number of reads. The clock stands still.
func TestRateOfUnknownKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sent := func(from string, headers ...string) int {
			r := request("GET", "/a", headers...)
			r.RemoteAddr = from
			v, no := w.Decide(r, site)
			if no == nil {
				return http.StatusOK
			}
			if status := no.(*answer).Status; v.Guesses || status != http.StatusTooManyRequests {
				return status
			}
			return 0 // one that does not wait
		}
		const from, elsewhere = "198.51.100.6:1", "198.51.100.7:1"
		for range 2 * checksAtOnce {
			sent(from, "Signadot-Api-Key", "key")
		}
		for i := range checksAtOnce {
			if got := sent(from, "Signadot-Api-Key", fmt.Sprint("guess ", i)); got != http.StatusUnauthorized {
				t.Errorf("guess %d: %d", i, got)
			}
		}
		if got := sent(from, "Signadot-Api-Key", "key"); got != http.StatusOK {
			t.Errorf("a valid key that is known, after %d guesses: %d", checksAtOnce, got)
		}
		if got := sent(from, "Cookie", w.session(site, "session")); got != http.StatusOK {
			t.Errorf("a session, after %d guesses: %d", checksAtOnce, got)
		}
		for i := range sessionsAtOnce {
			if got := sent(from, "Cookie", w.session(site, "gone")); got != http.StatusUnauthorized {
				t.Errorf("an ended session %d: %d", i, got)
			}
		}
		if got := sent(from, "Cookie", w.session(site, "gone")); got != http.StatusTooManyRequests {
			t.Errorf("after %d ended sessions: %d", sessionsAtOnce, got)
		}
		w.keys.changes++ // they are read again
		if got := sent(from, "Signadot-Api-Key", "key"); got != http.StatusOK {
			t.Errorf("a key that was valid lately, after %d guesses: %d", checksAtOnce, got)
		}
		reads := w.keys.reads
		if got := sent(from, "Authorization", "Bearer guess"); got != http.StatusTooManyRequests || w.keys.reads != reads {
			t.Errorf("after %d guesses: %d, %d more reads", checksAtOnce, got, w.keys.reads-reads)
		}
		if a, b := sent(from, "Cookie", w.session(site, "session")), sent(elsewhere, "Signadot-Api-Key", "token"); a != http.StatusOK || b != http.StatusOK {
			t.Errorf("a session at this address %d, a key at another one %d", a, b)
		}
		time.Sleep(unknownFor)
		synctest.Wait()
		if got := sent(from, "Signadot-Api-Key", "key"); got != http.StatusOK {
			t.Errorf("later: %d", got)
		}
	})
}

// TestGuesses: only requests with an unknown credential wait for their answer.
func TestGuesses(t *testing.T) {
	w := newWorld(t)
	for name, one := range map[string]struct {
		headers []string
		guesses bool
	}{
		"a session": {[]string{"Cookie", w.session(site, "session")}, false}, "an ended session": {[]string{"Cookie", w.session(site, "gone")}, false},
		"nothing": {nil, false}, "a key": {[]string{"Signadot-Api-Key", "key"}, false}, "a key of others": {[]string{"Signadot-Api-Key", "foreign"}, false},
		"an unknown key": {[]string{"Signadot-Api-Key", "guess"}, true}, "an unknown token": {[]string{"Authorization", "Bearer guess"}, true},
		"a session and an unknown token": {[]string{"Cookie", w.session(site, "session"), "Authorization", "Bearer guess"}, false},
	} {
		if v, _ := w.Decide(request("GET", "/", one.headers...), site); v.Guesses != one.guesses {
			t.Errorf("%s: guesses is %t", name, v.Guesses)
		}
	}
}

// TestReads: a valid credential is read once until a credential changes, or some seconds have passed.
func TestReads(t *testing.T) {
	w := newWorld(t)
	ask := func(want string, reads int) {
		t.Helper()
		w.keys.reads = 0
		if got, _ := w.outcome(request("GET", "/", "Cookie", w.session(site, "session")), site); got != want || w.keys.reads != reads {
			t.Errorf("%s after %d reads, want %s after %d", got, w.keys.reads, want, reads)
		}
	}
	ask("user jo", 1)
	ask("user jo", 0)
	w.keys.changes++
	ask("user jo", 1)
	w.now = w.now.Add(foundFor)
	ask("user jo", 1)
	session := w.keys.keys["session"]
	delete(w.keys.keys, "session")
	w.keys.changes++
	ask("401", 1)
	ask("401", 1)
	w.keys.keys["session"], w.keys.err = session, errors.New("no store")
	ask("503", 1)
	for i := range maxFound + 1 {
		secret := fmt.Sprint(i)
		w.keys.err, w.keys.keys = nil, map[string]*credentials.Key{secret: {Organisation: "acme", User: "ci"}}
		w.outcome(request("GET", "/", "Cookie", w.session(site, secret)), site)
	}
	if len(w.found) > maxFound {
		t.Errorf("%d credentials are kept", len(w.found))
	}
}

// browser is a browser without a session at the preview, that follows redirects itself.
type browser struct {
	*testing.T
	*world
	jar map[string]string
	// drop is the name of a cookie that it does not keep.
	drop string
	// urls are those to which it was redirected.
	urls []string
}

func (w *world) browser(t *testing.T) *browser {
	return &browser{T: t, world: w, jar: map[string]string{}}
}

// get loads a page of a preview and follows redirects. The page of logins gives a code for the session, once it is asked.
func (b *browser) get(s Site, target string) (outcome string, res *http.Response) {
	b.Helper()
	for range 10 {
		r := request("GET", target, kinds["page"]...)
		r.Host = s.Host
		for name, value := range b.jar {
			r.Header.Add("Cookie", name+"="+value)
		}
		if outcome, res = b.outcome(r, s); res == nil {
			return outcome, nil
		}
		for _, c := range res.Cookies() {
			if !c.Secure || !c.HttpOnly || c.Path != "/" || c.Domain != "" || c.SameSite != http.SameSiteLaxMode {
				b.Errorf("cookie %v", c)
			}
			if b.jar[c.Name] = c.Value; c.MaxAge < 0 || c.Name == b.drop {
				delete(b.jar, c.Name)
			}
		}
		to := res.Header.Get("Location")
		if to == "" {
			return outcome, res
		}
		if slices.Contains(b.urls, to) {
			b.Errorf("redirected to %s twice", to)
		}
		b.urls = append(b.urls, to)
		if at, is := strings.CutPrefix(to, pageOrigin+LoginPath+"?"); is {
			to = b.code(at, s)
			b.urls = append(b.urls, to)
		}
		target = strings.TrimPrefix(to, "https://"+s.Host)
	}
	return outcome, res
}

// code returns the URL to which the page of logins redirects.
func (b *browser) code(query string, s Site) string {
	b.Helper()
	values, err := url.ParseQuery(query)
	if err != nil {
		b.Fatal(err)
	}
	ask, is := Asked(b.Seal, values, b.now)
	if !is || ask.Host != s.Host {
		b.Fatal(ask, is)
	}
	return ask.URL(b.Seal, s, model.DigestOf("session"), b.now)
}

// TestFirstVisit: three redirects, then none, and a browser without working cookies gets a page with the reason.
func TestFirstVisit(t *testing.T) {
	w := newWorld(t)
	b := w.browser(t)
	if got, _ := b.get(site, "/a?b=%2F&c"); got != "user jo" || len(b.urls) != 3 || b.urls[2] != "https://"+site.Host+"/a?b=%2F&c" {
		t.Errorf("%s, %q", got, b.urls)
	}
	b.urls = nil
	if got, _ := b.get(site, "/a"); got != "user jo" || len(b.urls) != 0 {
		t.Errorf("the second visit: %s, %q", got, b.urls)
	}
	if got, _ := b.get(site, "//evil.example/"); got != "user jo" {
		t.Errorf("a path that looks like a host: %s", got)
	}
	for name, drop := range map[string]string{"nonce": nonceCookie(site), "session": sessionCookie(site)} {
		b := w.browser(t)
		b.drop = drop
		got, res := b.get(site, "/a")
		if got != "403" || len(b.urls) > 3 {
			t.Fatalf("%s is not kept: %s, %q", name, got, b.urls)
		}
		if text, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(text), "did not return the cookie") {
			t.Errorf("%s is not kept: %v %s", name, err, text)
		}
		b.drop, b.urls = "", nil
		if got, _ := b.get(site, "/a"); got != "user jo" || len(b.urls) != 3 {
			t.Errorf("%s is kept again: %s, %q", name, got, b.urls)
		}
	}
}

// TestPathsOfReturn: a login returns to the preview, whatever the path.
func TestPathsOfReturn(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/", "//evil.example/a", "/%5Cevil.example", "/a?next=https://evil.example", "/" + strings.Repeat("x", maxAsk), "/" + strings.Repeat("%2F", maxAsk/8)} {
		b := w.browser(t)
		if got, _ := b.get(site, path); got != "user jo" {
			t.Errorf("%.30s: %s", path, got)
		}
		want := "https://" + site.Host + path
		if len(path) > maxAsk {
			want = "https://" + site.Host + "/"
		}
		if got := b.urls[2]; got != want {
			t.Errorf("%.30s: returned to %.60s, want %.60s", path, got, want)
		}
		if n := len(b.urls[0]); n > len(pageOrigin)+maxAsk {
			t.Errorf("%.30s: a URL of %d bytes", path, n)
		}
	}
}

// TestTwoTabs: tabs that begin at once share the nonce; the second finds a session.
func TestTwoTabs(t *testing.T) {
	w := newWorld(t)
	b := w.browser(t)
	begin := func() string {
		r := request("GET", "/a", kinds["page"]...)
		if nonce, is := b.jar[nonceCookie(site)]; is {
			r.Header.Set("Cookie", nonceCookie(site)+"="+nonce)
		}
		_, res := b.outcome(r, site)
		for _, c := range res.Cookies() {
			if c.MaxAge > 0 {
				b.jar[c.Name] = c.Value
			}
		}
		_, query, _ := strings.Cut(res.Header.Get("Location"), "?")
		return strings.TrimPrefix(b.code(query, site), "https://"+site.Host)
	}
	first, second := begin(), begin()
	for _, at := range []string{first, second} {
		b.urls = nil
		if got, _ := b.get(site, at); got != "user jo" {
			t.Errorf("%s", got)
		}
	}
}

// TestCodes: a code is for one browser, one preview, one minute and one use, and a failure shows no code.
func TestCodes(t *testing.T) {
	w := newWorld(t)
	secret := "nonce-in-the-browser-of-jo"
	valid := Code{Host: site.Host, To: "/a", Nonce: digestOf(secret)}
	nonce := func(s Site, value string) string { return nonceCookie(s) + "=" + value }
	failed := "303 " + failedPath
	for _, test := range []struct {
		name    string
		at      Site // where the code is sent to
		of      Site // for which it is sealed
		cookie  string
		session string
		age     time.Duration
		want    string
	}{
		{"valid", site, site, nonce(site, secret), "session", 0, "303 https://" + site.Host + "/a"},
		{"another browser", site, site, "", "session", 0, failed},
		{"another nonce", site, site, nonce(site, "nonce-of-eve"), "session", 0, failed},
		{"used", site, site, nonce(site, done), "session", 0, failed},
		{"used, and a session", site, site, nonce(site, done) + "; " + w.session(site, "session"), "session", 0, "303 https://" + site.Host + "/a"},
		{"of another preview", other, site, nonce(other, secret), "session", 0, failed},
		{"expired", site, site, nonce(site, secret), "session", codeFor, failed},
		{"session has ended", site, site, nonce(site, secret), "gone", 0, failed},
		{"of another organisation", site, site, nonce(site, secret), "foreign", 0, failed},
	} {
		t.Run(test.name, func(t *testing.T) {
			u, err := url.Parse(valid.URL(w.Seal, test.of, model.DigestOf(test.session), w.now.Add(-test.age)))
			if err != nil {
				t.Fatal(err)
			}
			got, res := w.outcome(request("GET", u.RequestURI(), "Cookie", test.cookie, "Accept", "text/html"), test.at)
			if got != test.want || strings.Contains(res.Header.Get("Location"), "code") {
				t.Errorf("%s %s, want %s", got, res.Header.Get("Location"), test.want)
			}
			session := slices.ContainsFunc(res.Cookies(), func(c *http.Cookie) bool { return strings.Contains(c.Name, "preview") })
			if session != (test.name == "valid") {
				t.Errorf("cookies %v", res.Cookies())
			}
			if got == failed {
				if got, _ := w.outcome(request("GET", res.Header.Get("Location"), "Accept", "text/html"), test.at); got != "403" {
					t.Errorf("the page with the reason: %s", got)
				}
			}
		})
	}
	w.keys.changes++ // the session is read again
	w.keys.err = errors.New("no store")
	code := strings.TrimPrefix(valid.URL(w.Seal, site, model.DigestOf("session"), w.now), "https://"+site.Host)
	got, res := w.outcome(request("GET", code, "Cookie", nonce(site, secret)), site)
	if got != failed || res.Header.Get("Location") != failedPath+"?reason=store" {
		t.Errorf("without the store: %s %v", got, res.Header)
	}
	if got, _ := w.outcome(request("GET", failedPath+"?reason=store"), site); got != "403" {
		t.Errorf("the page with the reason: %s", got)
	}
	w.keys.err = nil
	for _, at := range []string{sessionPath, sessionPath + "?code=x", sessionPath + "?code=first+AAAA"} {
		if got, _ := w.outcome(request("GET", at), site); got != failed {
			t.Errorf("%s: %s", at, got)
		}
	}
	for _, r := range []*http.Request{request("GET", Prefix), request("GET", failedPath+"?reason=<b>"), request("POST", sessionPath), request("OPTIONS", Prefix+"x", "Origin", "https://x", "Access-Control-Request-Method", "GET")} {
		if got, _ := w.outcome(r, site); got != "404" {
			t.Errorf("%s %s: %s", r.Method, r.URL, got)
		}
	}
}

// TestAsks: a request for a session that no preview has sent in the last minutes is refused.
func TestAsks(t *testing.T) {
	w := newWorld(t)
	asked := func(s string) bool {
		values, err := url.ParseQuery(s)
		if err != nil {
			t.Fatal(err)
		}
		_, is := Asked(w.Seal, values, w.now)
		return is
	}
	until := w.now.Add(time.Minute)
	ask := Code{Host: site.Host, To: "/a?b", Nonce: digestOf("x"), Until: until}
	code := strings.Replace(ask.URL(w.Seal, site, model.DigestOf("session"), w.now), "code=", "ask=", 1)
	_, query, _ := strings.Cut(ask.Ask(w.Seal), "?")
	_, code, _ = strings.Cut(code, "?")
	for _, bad := range []string{"", "ask=", "ask=x", "host=" + site.Host + "&to=/&nonce=" + strings.Repeat("0", 64), code, strings.Replace(query, "ask=", "ask=A", 1)} {
		if asked(bad) {
			t.Errorf("%q counts", bad)
		}
	}
	if !asked(query) {
		t.Errorf("%q does not count", query)
	}
	if w.now = until; asked(query) {
		t.Error("an expired request counts")
	}
}
