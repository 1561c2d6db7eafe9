package login_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"switchyard.dev/controlplane-link/controlplane/login"
	"switchyard.dev/controlplane-link/controlplane/model"
)

// set changes a claim of the ID token; nil removes it.
func set(name string, value any) func(*issuer) {
	return func(i *issuer) {
		i.change = func(c map[string]any) {
			if c[name] = value; value == nil {
				delete(c, name)
			}
		}
	}
}

// Answers of an issuer that are no login: no user is created, and no session begins.
func TestAnswersThatAreNoLogin(t *testing.T) {
	const verify = "cannot be verified"
	for name, row := range map[string]struct {
		change func(*issuer)
		want   string
	}{
		"nonce of another login":     {set("nonce", "another"), verify},
		"no nonce":                   {set("nonce", nil), verify},
		"another audience":           {set("aud", "another-client"), verify},
		"issued to another":          {set("azp", "another-client"), verify},
		"expired":                    {set("exp", time.Now().Add(-time.Minute).Unix()), verify},
		"another issuer":             {set("iss", "https://issuer.example.com"), verify},
		"nobody":                     {set("sub", nil), verify},
		"a subject that is too long": {set("sub", strings.Repeat("x", 256)), verify},
		"unverified address in userinfo": {func(i *issuer) {
			i.person = map[string]any{"sub": "person-1", "email": "jo@example.com"}
		}, "no verified email address"},
		"another key":                {func(i *issuer) { i.sign = newKey(i.T) }, verify},
		"signed with the secret":     {func(i *issuer) { i.alg, i.sign = jose.HS256, []byte(secret) }, verify},
		"userinfo of another person": {func(i *issuer) { i.person = map[string]any{"sub": "person-2"} }, verify},
		"no mapping":                 {set("groups", []string{"everyone"}), "ask for"},
		"no claim":                   {set("groups", nil), "Ask an"},
		"part of a value":            {set("groups", []string{"ops-readers", "op"}), "<code>ops-readers</code>"},
		"a number":                   {set("groups", 7), "Ask an"},
		"unverified address": {func(i *issuer) {
			i.change = func(c map[string]any) { c["groups"], c["email"], c["email_verified"] = nil, "jo@example.com", false }
		}, "no verified email address"},
		"address that is not reported as verified": {func(i *issuer) {
			i.change = func(c map[string]any) {
				c["groups"], c["email"] = nil, "jo@example.com"
				delete(c, "email_verified")
			}
		}, "no verified email address"},
		"no address":                   {set("email", nil), "no verified email address"},
		"an address that is a group":   {set("email", "a:admin@example.com"), "no verified email address"},
		"an address without a domain":  {set("email", "admin"), "no verified email address"},
		"a missing organisation":       {set("groups", []string{"lost"}), "does not exist"},
		"a claim that is no page text": {set("groups", []string{"<script>alert(1)</script>"}), "&lt;script&gt;"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			row.change(w.issuer)
			b := w.browser()
			b.page("start").want(http.StatusForbidden, strings.TrimPrefix(row.want, "ask for"))
			if got := w.users(); len(got) != 0 || b.cookies()["__Host-switchyard-session"] != nil {
				t.Errorf("users %+v, cookies %v", got, b.cookies())
			}
			b.page("device").want(http.StatusOK, "Log in at")
		})
	}
}

// Codes are exchanged at the address in the issuer's configuration only.
func TestTheExchangeOfACodeIsNotRedirected(t *testing.T) {
	w := newWorld(t, nil)
	received := make(chan string, 9)
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { received <- r.FormValue("code") }))
	defer other.Close()
	w.issuer.elsewhere = other.URL
	w.browser().page("start").want(http.StatusForbidden, "cannot be verified")
	select {
	case code := <-received:
		t.Errorf("another server has received the code %q", code)
	default:
	}
}

// Without mappings, the default, no login counts.
func TestNoMappings(t *testing.T) {
	w := newWorld(t, nil)
	w.config.Settings.Mappings = nil
	w.browser().page("start").want(http.StatusForbidden, "<code>ops</code>")
}

// stopped is a browser that does not follow the redirection to the control plane, and the URL of that.
func (w *world) stopped() (*browser, string) {
	w.Helper()
	b := w.browser()
	b.client.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.String(), w.server.URL) {
			return http.ErrUseLastResponse
		}
		return nil
	}
	to := b.page("start").header.Get("Location")
	if !strings.HasPrefix(to, w.server.URL+"/login/callback?") {
		w.Fatalf("redirected to %q", to)
	}
	b.client.CheckRedirect = nil
	return b, to
}

// The answer of an issuer counts once, in the browser that has begun the login, for ten minutes.
func TestLoginsAreBoundToABrowser(t *testing.T) {
	const other = "was not started in this browser"
	w := newWorld(t, nil)
	attacker, lured := w.browser(), w.browser()
	_, to := w.stopped()
	lured.get(to).want(http.StatusForbidden, other) // would be logged in as the attacker
	lured.page("device").want(http.StatusOK, "Log in at")
	lured.page("start")
	lured.get(to).want(http.StatusForbidden, other)

	b, to := w.stopped()
	wrong, err := url.Parse(to)
	w.must(err)
	q := wrong.Query()
	q.Set("state", "another")
	wrong.RawQuery = q.Encode()
	cookie := b.cookies()["__Host-switchyard-login"]
	b.get(wrong.String()).want(http.StatusForbidden, other)
	b.get(to).want(http.StatusForbidden, other) // the login has ended

	b, to = w.stopped()
	cookie = b.cookies()["__Host-switchyard-login"]
	b.get(to).want(http.StatusOK, "role admin")
	b.get(to).want(http.StatusForbidden, other)
	at, err := url.Parse(w.server.URL)
	w.must(err)
	cookie.Secure, cookie.Path = true, "/"
	attacker.client.Jar.SetCookies(at, []*http.Cookie{cookie})
	attacker.get(to).want(http.StatusForbidden, "cannot be verified") // the issuer takes a code once

	b, to = w.stopped()
	b.get(to+"&error=access_denied").want(http.StatusForbidden, "refused")
	b, to = w.stopped()
	b.get(strings.Replace(to, "&iss=", "&iss=https%3A%2F%2Fother.example.com&x=", 1)).want(http.StatusForbidden, "refused")
	b, to = w.stopped()
	w.later = 11 * time.Minute
	b.get(to).want(http.StatusForbidden, other)
	w.later = 0
	if n := len(w.users()); n != 1 {
		t.Errorf("%d users", n)
	}
}

// The verifier of PKCE is that of the browser's login: a code that was stolen is of no use in another one.
func TestAStolenCode(t *testing.T) {
	w := newWorld(t, nil)
	_, stolen := w.stopped()
	b, own := w.stopped()
	from, err := url.Parse(stolen)
	w.must(err)
	to, err := url.Parse(own)
	w.must(err)
	q := to.Query()
	q.Set("code", from.Query().Get("code"))
	to.RawQuery = q.Encode()
	b.get(to.String()).want(http.StatusForbidden, "cannot be verified")
	if n := len(w.users()); n != 0 {
		t.Errorf("%d users", n)
	}
}

// Cookies are for this host over TLS, for no script, and encrypted for their name and their installation.
func TestCookies(t *testing.T) {
	w := newWorld(t, nil)
	b, to := w.stopped()
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	pending := b.cookies()["__Host-switchyard-login"].Value
	set := strings.Join(append(b.page("start").header["Set-Cookie"], b.get(to).header["Set-Cookie"]...), "\n")
	if n := strings.Count(set, "; Path=/; Max-Age="); n < 2 || strings.Count(set, "HttpOnly; Secure; SameSite=Lax") != strings.Count(set, "__Host-") || strings.Contains(set, "Domain") {
		t.Error(set)
	}
	b, to = w.stopped()
	b.get(to).want(http.StatusOK, "role admin")
	session := b.cookies()["__Host-switchyard-session"].Value
	for name, value := range map[string]string{"a pending login": pending, "changed": session[:20] + map[bool]string{true: "A", false: "B"}[session[20] == 'B'] + session[21:], "short": session[:20], "no base64": "%", "empty": ""} {
		req := httptest.NewRequestWithContext(t.Context(), "GET", w.server.URL+"/login/device", http.NoBody)
		req.AddCookie(&http.Cookie{Name: "__Host-switchyard-session", Value: value})
		rec := httptest.NewRecorder()
		w.current().ServeHTTP(rec, req)
		if rec.Code != http.StatusOK || !strings.Contains(rec.Body.String(), "Log in at") {
			t.Errorf("%s: %d %s", name, rec.Code, rec.Body)
		}
	}
}

// The API takes no cookie, nor the value of one.
func TestTheAPITakesNoCookie(t *testing.T) {
	w := newWorld(t, nil)
	b := w.browser()
	b.page("start").want(http.StatusOK, "role admin")
	b.get(w.server.URL+"/api/v2/orgs/").want(http.StatusUnauthorized, "no credential")
	var out map[string]any
	cookie := b.cookies()["__Host-switchyard-session"].Value
	raw, err := url.QueryUnescape(cookie)
	w.must(err)
	for _, value := range []string{cookie, raw} {
		if status := w.api("GET", "/orgs/", "", value, &out); status != http.StatusUnauthorized {
			t.Errorf("the value as a bearer token: %d %v", status, out)
		}
	}
}

// Sessions end: by a logout, after an hour, with their user.
func TestSessionsEnd(t *testing.T) {
	for name, end := range map[string]func(*world, *browser){
		"logout": func(_ *world, b *browser) { b.page("device").submit("Log out").want(http.StatusOK, "ended") },
		"time":   func(w *world, _ *browser) { w.later = 61 * time.Minute },
		"no user": func(w *world, _ *browser) {
			w.must(w.store.DeleteUser(w.Context(), org, w.users()[0].ID, model.Event{ID: "x"}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			b, code := w.browser(), w.device()
			v := b.get(code.VerificationURI).follow("Log in at").want(http.StatusOK, "Compare")
			at, err := url.Parse(w.server.URL)
			w.must(err)
			kept := b.cookies()["__Host-switchyard-session"]
			kept.Secure, kept.Path = true, "/"
			end(w, b)
			b.client.Jar.SetCookies(at, []*http.Cookie{kept}) // as a thief has it
			b.page("device").want(http.StatusOK, "Log in at")
			v.submit("decision", "decision", "accept").want(http.StatusForbidden, "not of your session")
			if name == "time" {
				return
			}
			if token, _ := w.poll(code); token.Status != "pending" {
				t.Errorf("%+v", token)
			}
		})
	}
}

// Forms of other sites, and those of other persons, change nothing.
func TestForgedForms(t *testing.T) {
	w := newWorld(t, nil)
	b, other, code := w.browser(), w.browser(), w.device()
	v := b.get(code.VerificationURI).follow("Log in at").want(http.StatusOK, "Compare")
	w.issuer.change = func(c map[string]any) { c["sub"] = "person-2" }
	other.page("start").want(http.StatusOK, "role admin")
	foreign, _ := other.page("device").fields("Log out")
	for name, row := range map[string]struct{ origin, token string }{
		"no origin": {"", "own"}, "another origin": {"https://evil.example.com", "own"}, "the origin of a sandbox": {"null", "own"},
		"another port": {"https://127.0.0.1:1", "own"}, "no TLS": {strings.Replace(w.server.URL, "https", "http", 1), "own"},
		"no token": {w.server.URL, ""}, "a wrong token": {w.server.URL, "x"}, "the token of another person": {w.server.URL, foreign.Get("token")},
	} {
		for _, button := range []string{"decision", "everywhere"} {
			form, to := v.fields(button)
			if row.token != "own" {
				form.Set("token", row.token)
			}
			form.Set(button, "accept")
			b.origin = row.origin
			if got := b.do("POST", to, form); got.status != http.StatusForbidden || !strings.Contains(got.text, "Nothing was changed") {
				t.Errorf("%s, %s: %d %s", name, button, got.status, got.text)
			}
		}
	}
	b.origin = w.server.URL
	form, to := v.fields("decision")
	form.Set("decision", "accept")
	b.get(to+"?"+form.Encode()).want(http.StatusOK, "Compare") // not a form that is sent
	w.browser().do("POST", to, form).want(http.StatusForbidden, "not of your session")
	form.Set("x", strings.Repeat("x", 5000))
	b.do("POST", to, form).want(http.StatusBadRequest, "more than 4 KiB")
	for _, path := range []string{"", "logout", "other", "device/"} {
		b.page(path).want(http.StatusNotFound, "no such page")
	}
	if token, _ := w.poll(code); token.Status != "pending" {
		t.Errorf("%+v", token)
	}
	v.submit("decision", "decision", "accept").want(http.StatusOK, "Accepted")
}

// A person can try ten codes, then a few each minute; others are not affected. Without a session none is looked up.
func TestGuessedCodes(t *testing.T) {
	w := newWorld(t, nil)
	b, other, code := w.browser(), w.browser(), w.device()
	for range 20 {
		b.page("device?user_code=AAAA-AAAA").want(http.StatusOK, "AAAA-AAAA") // is not looked up
	}
	b.page("start").want(http.StatusOK, "role admin")
	refused := 0
	for i := range 40 {
		v := b.page(fmt.Sprintf("device?user_code=AAAA-AA%02d", i))
		if v.status == http.StatusTooManyRequests {
			refused++
		} else {
			v.want(http.StatusNotFound, "No login waits")
		}
	}
	if refused < 20 {
		t.Errorf("%d of 40 codes were refused", refused)
	}
	w.issuer.change = func(c map[string]any) { c["sub"] = "person-2" }
	other.get(code.VerificationURI).follow("Log in at").want(http.StatusOK, "Compare")
}

// The log and the audit trail have no code, token or secret, of logins that were refused neither.
func TestSecretsAreNotLogged(t *testing.T) {
	w, log := newWorld(t, nil), &bytes.Buffer{}
	w.config.Logger = slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	w.replica()
	secrets := []string{secret, "access-canary"}
	login := func(want int) *browser {
		b, to := w.stopped()
		u, err := url.Parse(to)
		w.must(err)
		secrets = append(secrets, u.Query().Get("code"), u.Query().Get("state"), b.cookies()["__Host-switchyard-login"].Value)
		b.get(to).want(want, "")
		b.get(to).want(http.StatusForbidden, "")
		return b
	}
	b, code := login(http.StatusOK), w.device()
	secrets = append(secrets, b.cookies()["__Host-switchyard-session"].Value, code.DeviceCode)
	form, _ := b.page("device").fields("Log out")
	secrets = append(secrets, form.Get("token"))
	b.get(code.VerificationURI).submit("decision", "decision", "accept", "token", "x").want(http.StatusForbidden, "")
	b.get(code.VerificationURI).submit("decision", "decision", "accept").want(http.StatusOK, "Accepted")
	w.issuer.change = func(c map[string]any) { c["nonce"] = "another" }
	login(http.StatusForbidden)
	w.issuer.change = func(c map[string]any) { c["groups"] = "none" }
	login(http.StatusForbidden)
	w.issuer.broken = true
	login(http.StatusForbidden)
	all, err := w.store.Events(t.Context(), org, model.EventQuery{Limit: 1000})
	w.must(err)
	text := log.String() + fmt.Sprintf("%s", all)
	if !strings.Contains(log.String(), "exchange the code") || !strings.Contains(text, "login.accept") {
		t.Fatalf("the test does not see the log: %s", text)
	}
	for _, s := range secrets {
		if len(s) < 10 || strings.Contains(text, s) {
			t.Errorf("%q is in the log or the audit trail:\n%s", s, text)
		}
	}
}

// An address begins a few logins of devices, so that it does not take them all.
func TestLoginsOfAnAddress(t *testing.T) {
	w := newWorld(t, nil)
	begin := func(address string) int {
		req := httptest.NewRequestWithContext(t.Context(), "POST", "/api/v2/auth/device/code/", http.NoBody)
		req.RemoteAddr = address
		rec := httptest.NewRecorder()
		w.current().ServeHTTP(rec, req)
		return rec.Code
	}
	begun := 0
	for range 150 {
		if got := begin("203.0.113.7:1"); got == http.StatusOK {
			begun++
		}
	}
	if begun < 20 || begun > 140 {
		t.Errorf("an address has begun %d logins", begun)
	}
	if got := begin("203.0.113.8:1"); got != http.StatusOK {
		t.Errorf("another address: %d", got)
	}
}

// An address has a share of the requests.
func TestRequestsOfAnAddress(t *testing.T) {
	w := newWorld(t, nil)
	h, err := login.New(w.config)
	w.must(err)
	get := func(address string) int {
		req := httptest.NewRequestWithContext(t.Context(), "GET", "/login/device", http.NoBody)
		req.RemoteAddr = address
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, req)
		return rec.Code
	}
	last := http.StatusOK
	for range 20_000 {
		if last = get("203.0.113.7:1"); last == http.StatusTooManyRequests {
			break
		}
	}
	if last != http.StatusTooManyRequests {
		t.Error("one address has no limit")
	}
	if got := get("203.0.113.8:1"); got != http.StatusOK {
		t.Errorf("another address: %d", got)
	}
}

// All pages refuse scripts, frames and caches. Their style is the one that the policy names.
func TestHeaders(t *testing.T) {
	w := newWorld(t, nil)
	b, code := w.browser(), w.device()
	views := []view{b.page("device"), b.page("none"), b.page("callback")}
	views = append(views, b.get(code.VerificationURI).follow("Log in at"))
	views = append(views, b.page("device"), views[3].submit("decision", "decision", "deny"))
	style := regexp.MustCompile(`(?s)<style>(.*)</style>`)
	for _, v := range views {
		policy := v.header.Get("Content-Security-Policy")
		sum := sha256.Sum256([]byte(style.FindStringSubmatch(v.text)[1]))
		if !strings.Contains(policy, "default-src 'none'; style-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'") {
			t.Errorf("%s: policy %q", v.url, policy)
		}
		for name, want := range map[string]string{"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "same-origin", "Content-Type": "text/html; charset=utf-8"} {
			if got := v.header.Get(name); got != want {
				t.Errorf("%s: %s is %q", v.url, name, got)
			}
		}
		for _, word := range []string{"<script", " on", "style=", "http://"} {
			if strings.Contains(v.text[strings.Index(v.text, "</style>"):], word+"click=") || word != " on" && strings.Contains(v.text, word) {
				t.Errorf("%s has %s", v.url, word)
			}
		}
	}
}
