package access

import (
	"context"
	"crypto/rand"
	"errors"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/credentials"
)

// sessions are Keys by the sessions of a store.
type sessions struct {
	known
	*store.Store
}

func (s *sessions) FindDigest(ctx context.Context, d model.Digest, _ string) (*credentials.Key, error) {
	l, err := s.Session(ctx, d)
	if err != nil {
		return nil, nil //nolint:nilerr // it is not known
	}
	return &credentials.Key{Organisation: l.Org, User: l.UserID}, nil
}

// frame is an embedded preview in a browser that keeps its cookies, unless blocks is set.
type frame struct {
	*testing.T
	*Access
	jar    map[string]string
	blocks bool
}

// load loads a page in the frame, without following redirects.
func (f *frame) load(target string) (*http.Response, string) {
	f.Helper()
	r := request("GET", target, kinds["frame"]...)
	for name, value := range f.jar {
		r.Header.Add("Cookie", name+"="+value)
	}
	v, answer := f.Decide(r, site)
	if answer == nil {
		return nil, v.User
	}
	rec := httptest.NewRecorder()
	answer.ServeHTTP(rec, r)
	res := rec.Result()
	for _, c := range res.Cookies() {
		if !c.Partitioned || c.SameSite != http.SameSiteNoneMode || !c.Secure || !c.HttpOnly {
			f.Errorf("cookie %v", c)
		}
		if f.jar[c.Name] = c.Value; c.MaxAge < 0 || f.blocks {
			delete(f.jar, c.Name)
		}
	}
	text, err := io.ReadAll(res.Body)
	if err != nil {
		f.Fatal(err)
	}
	return res, string(text)
}

var framedLink = regexp.MustCompile(`href="` + regexp.QuoteMeta(pageOrigin+LoginPath) + `\?(frame=[^"]+)" target="_blank"`)

var userCode = regexp.MustCompile(`[A-Z2-7]{4}-[A-Z2-7]{4}`)

// TestEmbedded: a preview in a frame of another site logs in like a device.
func TestEmbedded(t *testing.T) {
	w := newWorld(t)
	s, err := store.Open(t.Context(), store.Config{Path: filepath.Join(t.TempDir(), "store.db"), Keys: w.Seal})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	for _, org := range []string{"acme", "other"} {
		ev := model.Event{Org: org, ID: rand.Text(), Type: "test", By: model.Principal{Kind: model.KindSystem, ID: "test"}, Method: model.MethodInternal}
		if err := s.CreateOrganisation(t.Context(), model.Organisation{Name: org, DisplayName: org}, ev); err != nil {
			t.Fatal(err)
		}
		ev.ID = rand.Text()
		if err := s.PutUser(t.Context(), model.User{Org: org, ID: "jo-" + org, Subject: "s", Email: "jo@example.com", Role: model.RoleMember, CreatedAt: time.Now().UTC(), UpdatedAt: time.Now().UTC()}, ev); err != nil {
			t.Fatal(err)
		}
	}
	all := &sessions{Store: s}
	w.Keys, w.Logins, w.Embedded = all, s, true
	links := map[string]string{}
	begin := func() (f *frame, code, at string) {
		t.Helper()
		f = &frame{T: t, Access: w.Access, jar: map[string]string{}}
		res, _ := f.load("/a?b=c")
		at = res.Header.Get("Location")
		res, text := f.load(at)
		if res.StatusCode != http.StatusOK || res.Header.Get("X-Frame-Options") != "" || strings.Contains(res.Header.Get("Content-Security-Policy"), "frame-ancestors") {
			t.Fatalf("status %d, %v", res.StatusCode, res.Header)
		}
		code = userCode.FindString(text)
		link := framedLink.FindStringSubmatch(text)
		if link == nil {
			t.Fatalf("no link for code %s in %s", code, text)
		}
		links[code] = html.UnescapeString(link[1])
		if l, err := s.DeviceLoginByCode(t.Context(), code); !errors.Is(err, model.ErrNotFound) {
			t.Errorf("a visitor without a session has written %+v, %v", l, err)
		}
		_, at, _ = strings.Cut(res.Header.Get("Refresh"), "url=")
		return f, code, at
	}
	decide := func(code, org string, denied bool) {
		t.Helper()
		values, err := url.ParseQuery(links[code])
		if err != nil {
			t.Fatal(err)
		}
		l, is := Embedded(w.Seal, values) // as the page does
		if !is || l.UserCode != code || l.Preview != site.Host || l.Address != "192.0.2.1" {
			t.Fatalf("the link is of login %+v", l)
		}
		if err := s.CreateDeviceLogin(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		user, session := map[bool]string{false: "jo-" + org}[denied], model.Session{Org: org, UserID: "jo-" + org, Access: model.DigestOf("page of " + code), Refresh: model.DigestOf("refresh " + code)}
		ev := model.Event{Org: org, ID: rand.Text(), Type: "login.accept", By: model.Principal{Kind: model.KindUser, ID: "jo-" + org}, Method: model.MethodBearer}
		if err := s.CreateSession(t.Context(), session, ev); err != nil {
			t.Fatal(err)
		}
		ev.ID = rand.Text()
		if err := s.DecideDeviceLogin(t.Context(), l.Device, user, session.Access, denied, ev); err != nil {
			t.Fatal(err)
		}
	}
	want := func(res *http.Response, text string, status int, part string) {
		t.Helper()
		if res == nil || res.StatusCode != status || !strings.Contains(text+res.Header.Get("Location"), part) {
			t.Errorf("%v %s, want status %d with %q", res, text, status, part)
		}
	}

	f, code, at := begin()
	if res, text := f.load(at); res.StatusCode != http.StatusOK || userCode.FindString(text) != code {
		t.Errorf("before it is accepted: %d %s", res.StatusCode, text)
	}
	elsewhere := request("GET", embeddedPath)
	for name, value := range f.jar {
		elsewhere.Header.Add("Cookie", name+"="+value)
	}
	_, answer := w.Decide(elsewhere, other)
	rec := httptest.NewRecorder()
	if answer.ServeHTTP(rec, elsewhere); strings.Contains(rec.Body.String(), code) {
		t.Errorf("another preview continues the login: %s", rec.Body)
	}
	decide(code, "acme", false)
	res, text := f.load(at)
	want(res, text, http.StatusSeeOther, "https://"+site.Host+"/a?b=c")
	if res, user := f.load("/a?b=c"); res != nil || user != "jo-acme" || len(f.jar) != 1 {
		t.Errorf("after the login: %v %s, %v", res, user, f.jar)
	}
	if res, _ := f.load(at); res.StatusCode != http.StatusForbidden {
		t.Errorf("a login that was finished: %v", res)
	}
	ev := model.Event{Org: "acme", ID: rand.Text(), Type: "logout.page", By: model.Principal{Kind: model.KindUser, ID: "jo-acme"}, Method: model.MethodBearer}
	if err := s.EndSession(t.Context(), model.DigestOf("page of "+code), ev); err != nil {
		t.Fatal(err)
	}
	all.changes++
	if res, user := f.load("/a?b=c"); res == nil {
		t.Errorf("after the logout at the page: user %s", user)
	}

	f, code, at = begin()
	decide(code, "acme", true)
	res, text = f.load(at)
	want(res, text, http.StatusForbidden, "denied")
	f, code, at = begin()
	decide(code, "other", false)
	res, text = f.load(at)
	want(res, text, http.StatusForbidden, "another organisation")
	f, _, at = begin()
	clear(f.jar)
	res, text = f.load(at)
	want(res, text, http.StatusForbidden, "keeps no cookies")
	f, code, at = begin()
	decide(code, "acme", false)
	w.now = w.now.Add(embeddedFor)
	res, text = f.load(at)
	want(res, text, http.StatusForbidden, "15 minutes")
	_, _, _ = begin()
	f.blocks = true
	clear(f.jar)
	for _, to := range []string{"//evil.example/", "https://evil.example/", "x", ""} {
		res, _ := f.load(embeddedPath + "?" + url.Values{"to": {to}}.Encode())
		if _, next, _ := strings.Cut(res.Header.Get("Refresh"), "url="); !strings.Contains(next, "to=%2F") || strings.Contains(next, "to=https") {
			t.Errorf("to %q: %s", to, next)
		}
	}
	w.Embedded = false
	if res, _ := f.load(embeddedPath); res.StatusCode != http.StatusNotFound {
		t.Errorf("without the value: %v", res)
	}
}

// pending are Logins that no person has accepted yet.
type pending int

func (p *pending) DeviceLogin(context.Context, model.Digest) (model.DeviceLogin, error) {
	*p++
	return model.DeviceLogin{}, model.ErrNotFound
}

// TestRateOfEmbeddedLogins: an address causes a bounded number of reads of logins. The clock stands still.
func TestRateOfEmbeddedLogins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, reads := newWorld(t), pending(0)
		w.Logins, w.Embedded = &reads, true
		f := &frame{T: t, Access: w.Access, jar: map[string]string{}}
		f.load(embeddedPath) // begins a login, which reads nothing
		for range checksAtOnce {
			if res, _ := f.load(embeddedPath); res.StatusCode != http.StatusOK {
				t.Errorf("status %d", res.StatusCode)
			}
		}
		if res, _ := f.load(embeddedPath); res.StatusCode != http.StatusTooManyRequests || reads != checksAtOnce {
			t.Errorf("status %d after %d reads", res.StatusCode, reads)
		}
		time.Sleep(unknownFor)
		synctest.Wait()
		if res, _ := f.load(embeddedPath); res.StatusCode != http.StatusOK {
			t.Errorf("later: status %d", res.StatusCode)
		}
	})
}
