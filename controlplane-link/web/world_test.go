package web_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/html"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/controlplane-link/controlplane/captures"
	"switchyard.dev/controlplane-link/controlplane/live"
	"switchyard.dev/controlplane-link/controlplane/login"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/controlplane/store/seal"
	"switchyard.dev/controlplane-link/preview/endpoints"
	"switchyard.dev/controlplane-link/web"
	"switchyard.dev/workflows/jobexec/results"
)

const (
	org      = "acme"
	patience = time.Minute
)

// site is a control plane's page with its store, over TLS.
type site struct {
	*testing.T
	store    *store.Store
	keys     *seal.Keys
	path     string
	server   *httptest.Server
	later    atomic.Int64 // added to the time
	stop     context.CancelFunc
	captures *captures.Recorder
	// reader reads clusters; nil: no agent is connected.
	reader client.Reader
	// readBy is the user that has read a cluster last.
	readBy atomic.Value
}

func newSite(t *testing.T) *site {
	t.Helper()
	return newSiteWithin(t, 0)
}

// newSiteWithin returns a site with timeouts of connections; 0: none.
func newSiteWithin(t *testing.T, timeout time.Duration) *site {
	t.Helper()
	s := &site{T: t, path: filepath.Join(t.TempDir(), "store.db")}
	var err error
	s.keys, err = seal.Parse("first " + base64.StdEncoding.EncodeToString(make([]byte, 32)))
	s.must(err)
	s.store, err = store.Open(t.Context(), store.Config{Path: s.path, Keys: s.keys})
	s.must(err)
	for _, name := range []string{org, "other"} {
		ev := event("organisation.create")
		ev.Org = name
		s.must(s.store.CreateOrganisation(t.Context(), model.Organisation{Name: name, DisplayName: name}, ev))
		s.must(s.store.CreateCluster(t.Context(), model.Cluster{Org: name, Name: "prod", CreatedAt: time.Now()}, event("cluster.add")))
	}
	files, err := results.OpenFolder(filepath.Join(t.TempDir(), "artifacts"))
	s.must(err)
	t.Cleanup(func() { _ = files.Close() })
	s.captures = &captures.Recorder{Store: captures.Store{Store: s.store, Limits: captures.DefaultLimits}, Files: files}
	var handlers http.ServeMux
	s.server = httptest.NewUnstartedServer(&handlers)
	own := "https://" + s.server.Listener.Addr().String()
	pages, err := login.New(login.Config{Settings: &login.Settings{Issuer: "https://issuer.invalid", ClientID: "c"}, Store: s.store, Keys: s.keys, URL: own, Now: s.now, Logger: slog.New(slog.DiscardHandler)})
	s.must(err)
	h := web.New(web.Config{
		Login: pages, Store: s.store, Now: s.now, Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError})),
		Live: live.Clusters{Reader: s.read}, Previews: endpoints.Domains{org: "preview.example.net"}.Of,
		Problems: func(org string) []string {
			return []string{"The certificate for *.preview.example.net ends soon, in " + org + "."}
		},
		Identified: func(string, string) {}, Captures: s.captures,
	})
	handlers.Handle("/", h)
	handlers.Handle(login.Prefix, pages)
	ctx, cancel := context.WithCancel(context.Background())
	h.Watch(ctx)
	s.stop = cancel
	s.server.Config.WriteTimeout, s.server.Config.ReadTimeout = timeout, timeout
	s.server.StartTLS()
	t.Cleanup(func() {
		cancel()
		s.server.Close()
		s.must(s.store.Close())
	})
	return s
}

func (s *site) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *site) now() time.Time { return time.Now().Add(time.Duration(s.later.Load())) }

func (s *site) read(_ context.Context, _, _ string, by model.Author) (client.Reader, error) {
	if s.reader == nil {
		return nil, fmt.Errorf("%w", model.ErrUnreachable)
	}
	s.readBy.Store(fmt.Sprintf("%s %s", by.Name, by.Role))
	return s.reader, nil
}

var count atomic.Int64

// event is an entry of the audit trail for a write of the test.
func event(what string) model.Event {
	return model.Event{Org: org, ID: fmt.Sprintf("test-%d", count.Add(1)), Type: what, At: time.Now().UTC().Truncate(time.Microsecond), By: model.Principal{Kind: model.KindSystem, ID: "test"}, Method: model.MethodInternal}
}

// put writes a sandbox of acme, with its routing key.
func (s *site) put(name, spec string) model.Sandbox {
	s.Helper()
	now := time.Now().UTC().Truncate(time.Microsecond)
	o, err := s.store.PutSandbox(s.Context(), model.Sandbox{
		Org: org, Name: name, Cluster: "prod", RoutingKey: "key-of-" + name, Spec: json.RawMessage(spec), CreatedAt: now, UpdatedAt: now,
		Author: model.Author{Principal: model.Principal{Kind: model.KindUser, ID: "u1", Name: "jo@example.com"}, Role: model.RoleMember},
	}, event("sandbox.apply"))
	s.must(err)
	return o
}

// observe records a status of a sandbox.
func (s *site) observe(o model.Sandbox, ready bool, reason, message string) {
	s.Helper()
	is, err := s.store.Observe(s.Context(), store.Sandbox, o.Org, o.Name, "prod", model.Status{Generation: o.Generation, Ready: ready, Reason: reason, Message: message})
	if s.must(err); !is {
		s.Fatal("the status is not recorded")
	}
}

// person is a browser with a session.
type person struct {
	*site
	user   model.User
	secret string
	cookie string
}

// logIn begins a session of a user with a role, as package login does.
func (s *site) logIn(of string, role model.Role) *person {
	s.Helper()
	n := count.Add(1)
	p := &person{site: s, user: model.User{Org: of, ID: fmt.Sprintf("user-%d", n), Email: fmt.Sprintf("p%d@example.com", n), Role: role}, secret: rand.Text()}
	ev := event("user.login")
	ev.Org = of
	s.must(s.store.PutUser(s.Context(), p.user, ev))
	ev.ID += "-session"
	s.must(s.store.CreateSession(s.Context(), model.Session{Org: of, UserID: p.user.ID, Access: model.DigestOf(p.secret), Refresh: model.DigestOf(rand.Text()), ExpiresAt: time.Now().Add(time.Hour), RefreshBy: time.Now().Add(time.Hour)}, ev))
	const name = "__Host-switchyard-session"
	id, sealed := s.keys.Seal(name, p.secret)
	p.cookie = name + "=" + url.QueryEscape(id+" "+sealed)
	return p
}

// answer is an answer to a request.
type answer struct {
	*testing.T
	path   string
	status int
	header http.Header
	text   string
}

// do sends a request, with headers as "Name: value".
func (p *person) do(method, path string, form url.Values, headers ...string) answer {
	p.Helper()
	res := p.open(p.Context(), method, path, form, headers...)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	p.must(err)
	return answer{p.T, path, res.StatusCode, res.Header, string(text)}
}

func (p *person) open(ctx context.Context, method, path string, form url.Values, headers ...string) *http.Response {
	p.Helper()
	req, err := http.NewRequestWithContext(ctx, method, p.server.URL+path, strings.NewReader(form.Encode()))
	p.must(err)
	req.Header.Set("Accept", "text/html")
	if p.cookie != "" {
		req.Header.Set("Cookie", p.cookie)
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", p.server.URL)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	c := *p.server.Client()
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	res, err := c.Do(req)
	p.must(err)
	return res
}

func (p *person) get(path string, headers ...string) answer {
	p.Helper()
	return p.do(http.MethodGet, path, nil, headers...)
}

// want fails unless a page has a status and texts, in its text as a person reads it.
func (a answer) want(status int, texts ...string) answer {
	a.Helper()
	for _, text := range texts {
		if a.status != status || !strings.Contains(a.read(), text) {
			a.Errorf("%s: status %d, want %d with %q:\n%s", a.path, a.status, status, text, a.read())
		}
	}
	return a
}

// not fails if a page has a text.
func (a answer) not(texts ...string) answer {
	a.Helper()
	for _, text := range texts {
		if strings.Contains(a.text, text) || strings.Contains(a.read(), text) {
			a.Errorf("%s has %q:\n%s", a.path, text, a.text)
		}
	}
	return a
}

// read returns the text of a page, without markup, with single blanks.
func (a answer) read() string {
	root, err := html.Parse(strings.NewReader(a.text))
	if err != nil {
		a.Fatal(err)
	}
	var b strings.Builder
	for n := range root.Descendants() {
		if n.Type == html.TextNode {
			b.WriteString(n.Data + " ")
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// token returns the token of the forms.
func (a answer) token() string {
	_, rest, _ := strings.Cut(a.text, `name="token" value="`)
	token, _, is := strings.Cut(rest, `"`)
	if !is {
		a.Fatalf("no token in %s", a.text)
	}
	return token
}

// stream is an event stream that is open.
type stream struct {
	*person
	res   *http.Response
	lines *bufio.Reader
}

func (p *person) stream() *stream {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), patience)
	p.Cleanup(cancel)
	res := p.open(ctx, http.MethodGet, "/events", nil, "Accept: text/event-stream")
	p.Cleanup(func() { _ = res.Body.Close() }) // it can have ended
	return &stream{p, res, bufio.NewReader(res.Body)}
}

// next returns the next revision; io.EOF: the stream has ended.
func (s *stream) next() (string, error) {
	for {
		line, err := s.lines.ReadString('\n')
		if err != nil {
			return "", err
		}
		if revision, is := strings.CutPrefix(strings.TrimSpace(line), "data: "); is {
			return revision, nil
		}
	}
}
