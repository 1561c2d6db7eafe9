package controlplane_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"switchyard.dev/controlplane-link/controlplane"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/eventbus/trust/trusttest"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/link/agents"
	"switchyard.dev/tests/link/deliveries"
	"switchyard.dev/tunnels/carrier"
)

const patience = agents.Patience

// Secrets, with the text that no log may have.
var (
	adaKey    = "s3cret-ada-" + strings.Repeat("a", 41)
	ciKey     = "s3cret-ci-" + strings.Repeat("c", 42)
	bearer    = "s3cret-bearer-" + strings.Repeat("b", 38)
	expired   = "s3cret-expired-" + strings.Repeat("e", 37)
	prodToken = "s3cret-prod-" + strings.Repeat("p", 40)
)

// site has the files of a control plane.
type site struct {
	testing.TB
	authority *trusttest.Authority
	dir       string
	log       background.Output
	callers   chan *linkv1.Caller // of connections to Services
	readers   chan *linkv1.Caller // of connections to the Kubernetes API for users
}

func newSite(t testing.TB) *site {
	t.Helper()
	s := &site{TB: t, authority: trusttest.New(t, "acme"), dir: t.TempDir(), callers: make(chan *linkv1.Caller, 1000), readers: make(chan *linkv1.Caller, 1000)}
	s.authority.Write(t, s.dir, s.authority.Leaf(t, "127.0.0.1"))
	t.Cleanup(func() {
		if text := s.log.String(); strings.Contains(text, "s3cret") {
			t.Errorf("the log has a secret:\n%s", text)
		}
	})
	return s
}

func (s *site) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *site) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(&s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// running is a control plane that runs.
type running struct {
	*site
	*controlplane.Main
	stop  context.CancelFunc
	ended chan error
}

// config returns the configuration with a store in SQLite.
func (s *site) config() controlplane.Config {
	s.Helper()
	c, err := deliveries.Whole(s.dir, s.logger())
	s.must(err)
	return c
}

func (s *site) start(c controlplane.Config) *running {
	s.Helper()
	main, err := controlplane.New(s.Context(), c)
	s.must(err)
	ctx, stop := context.WithCancel(context.Background())
	r := &running{s, main, stop, make(chan error, 1)}
	go func() { r.ended <- main.Run(ctx); close(r.ended) }()
	s.Cleanup(func() {
		stop()
		if err := <-r.ended; err != nil {
			s.Error(err)
		}
	})
	return r
}

func (r *running) at(listener string) string { return r.Listeners[listener].Addr().String() }

// event is an entry for a write of the test.
func event() model.Event {
	return model.Event{Org: "acme", ID: rand.Text(), Type: "test", At: time.Now().UTC(), By: model.Principal{Kind: model.KindSystem, ID: "test"}, Method: model.MethodInternal}
}

var (
	ada = model.Principal{Kind: model.KindUser, ID: "u-ada", Name: "ada@example.com"}
	ci  = model.Principal{Kind: model.KindServiceAccount, ID: "ci"}
)

// fill makes organisation acme with its users, and cluster prod with a token.
func (r *running) fill() {
	r.Helper()
	s, ctx, now := r.Store(), r.Context(), time.Now().UTC().Truncate(time.Microsecond)
	r.must(s.CreateOrganisation(ctx, model.Organisation{Name: "acme", DisplayName: "Acme", CreatedAt: now}, event()))
	r.must(s.PutUser(ctx, model.User{Org: "acme", ID: ada.ID, Email: ada.Name, Role: model.RoleAdmin, CreatedAt: now, UpdatedAt: now}, event()))
	r.must(s.CreateServiceAccount(ctx, model.ServiceAccount{Org: "acme", Name: ci.ID, Role: model.RoleMember, CreatedAt: now, UpdatedAt: now}, event()))
	for id, k := range map[string]struct {
		owner  model.Principal
		secret string
	}{"k-ada": {ada, adaKey}, "k-ci": {ci, ciKey}} {
		r.must(s.CreateAPIKey(ctx, model.APIKey{Org: "acme", ID: id, Owner: k.owner, Masked: k.secret[:6], Digest: model.DigestOf(k.secret), CreatedAt: now}, event()))
	}
	for token, until := range map[string]time.Time{bearer: now.Add(time.Hour), expired: now.Add(-time.Second)} {
		r.must(s.CreateSession(ctx, model.Session{Org: "acme", UserID: ada.ID, Access: model.DigestOf(token), Refresh: model.DigestOf(token + "r"), CreatedAt: now, ExpiresAt: until, RefreshBy: now.Add(time.Hour)}, event()))
	}
	r.must(s.CreateCluster(ctx, model.Cluster{Org: "acme", Name: "prod", CreatedAt: now}, event()))
	r.must(s.CreateClusterToken(ctx, model.ClusterToken{Org: "acme", Cluster: "prod", ID: "t-prod", Masked: prodToken[:6], Digest: model.DigestOf(prodToken), CreatedAt: now}, event()))
}

// agent starts the agent of cluster prod, and waits for its session. It ends with the test, or when stop is called.
func (r *running) agent() (stop func()) {
	r.Helper()
	cfg := agents.Config(r.TB, r.at("agents"), "a", r.authority.Bundle())
	cfg.Token, cfg.Handle, cfg.Logger = func() (string, error) { return prodToken, nil }, r.handle, r.logger()
	hello := cfg.Hello
	cfg.Hello = func(ctx context.Context) (*linkv1.Hello, error) {
		h, err := hello(ctx)
		h.OperatorVersion, h.Configuration = "0.1.0", &linkv1.Configuration{AllowedNamespaces: []string{"shop"}, Meshes: []string{"istio"}, PreviewDomain: "previews.example.net"}
		return h, err
	}
	a, stop := agents.Start(r.TB, cfg)
	agents.Up(r.TB, a, 1)
	return stop
}

// handle is the agent's: every Service echoes its input, and the Kubernetes API has one sandbox.
func (s *site) handle(_ context.Context, in *carrier.Incoming, _ *linkv1.Welcome) {
	open := in.Request.(*linkv1.Open)
	c, err := in.Accept()
	if err != nil {
		return
	}
	defer c.Close()
	if open.GetService() == nil {
		if open.GetCaller().GetName() != "" {
			s.readers <- open.GetCaller()
		}
		ended := make(chan struct{})
		server := &http.Server{Handler: http.HandlerFunc(kubernetes), ConnState: func(_ net.Conn, is http.ConnState) {
			if is == http.StateClosed {
				close(ended)
			}
		}}
		_ = server.Serve(&once{conn: c}) // io.EOF: the server goes on with the connection
		<-ended
		return
	}
	s.callers <- open.GetCaller()
	_, _ = io.Copy(c, c)
}

// once is a listener with one connection.
type once struct{ conn net.Conn }

func (o *once) Accept() (net.Conn, error) {
	if o.conn == nil {
		return nil, io.EOF
	}
	c := o.conn
	o.conn = nil
	return c, nil
}
func (o *once) Close() error   { return nil }
func (o *once) Addr() net.Addr { return &net.TCPAddr{} }

// kubernetes answers discovery, and reads of sandbox web.
func kubernetes(w http.ResponseWriter, r *http.Request) {
	answers := map[string]string{
		"/api":                  `{"kind":"APIVersions","versions":["v1"]}`,
		"/apis":                 `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"signadot.com","versions":[{"groupVersion":"signadot.com/v1","version":"v1"}],"preferredVersion":{"groupVersion":"signadot.com/v1","version":"v1"}}]}`,
		"/apis/signadot.com/v1": `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"signadot.com/v1","resources":[{"name":"signadotsandboxes","singularName":"signadotsandbox","namespaced":false,"kind":"SignadotSandbox","verbs":["get"]}]}`,
		"/apis/signadot.com/v1/signadotsandboxes":     `{"kind":"SignadotSandboxList","apiVersion":"signadot.com/v1","metadata":{"resourceVersion":"1"},"items":[]}`,
		"/apis/signadot.com/v1/signadotroutegroups":   `{"kind":"SignadotRouteGroupList","apiVersion":"signadot.com/v1","metadata":{"resourceVersion":"1"},"items":[]}`,
		"/apis/signadot.com/v1/jobrunnergroups":       `{"kind":"JobRunnerGroupList","apiVersion":"signadot.com/v1","metadata":{"resourceVersion":"1"},"items":[]}`,
		"/apis/signadot.com/v1/signadotsandboxes/web": `{"kind":"SignadotSandbox","apiVersion":"signadot.com/v1","metadata":{"name":"web"},"spec":{"id":"abc"}}`,
	}
	w.Header().Set("Content-Type", "application/json")
	text, is := answers[r.URL.Path]
	if !is {
		w.WriteHeader(http.StatusNotFound)
		text = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
	}
	_, _ = io.WriteString(w, text)
}

// client returns a client of the API.
func (r *running) client() *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(r.authority.Bundle())
	t := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	r.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t, Timeout: patience}
}

// call sends a request of ada to the API.
func (r *running) call(method, path, body string) (int, map[string]any) {
	r.Helper()
	return r.callWith(adaKey, method, path, body)
}

// callWith sends a request with an API key to the API.
func (r *running) callWith(key, method, path, body string) (int, map[string]any) {
	r.Helper()
	q, err := http.NewRequestWithContext(r.Context(), method, "https://"+r.at("api")+"/api/v2"+path, bytes.NewReader([]byte(body)))
	r.must(err)
	q.Header.Set("Signadot-Api-Key", key)
	answer, err := r.client().Do(q)
	r.must(err)
	defer answer.Body.Close()
	out := map[string]any{}
	r.must(json.NewDecoder(answer.Body).Decode(&out))
	return answer.StatusCode, out
}

// page requests a path of the API's listener as a browser does.
func (r *running) page(path, accept string) (int, string) {
	r.Helper()
	q, err := http.NewRequestWithContext(r.Context(), http.MethodGet, "https://"+r.at("api")+path, nil)
	r.must(err)
	q.Header.Set("Accept", accept)
	answer, err := r.client().Do(q)
	r.must(err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	r.must(err)
	return answer.StatusCode, string(text)
}

// connect opens a connection to a Service of cluster prod, and returns the status of the answer.
func (r *running) connect(headers string) (int, net.Conn, *bufio.Reader) {
	r.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(r.authority.Bundle())
	c, err := tls.Dial("tcp", r.at("proxy"), &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"})
	r.must(err)
	r.Cleanup(func() { _ = c.Close() })
	_, err = fmt.Fprintf(c, "CONNECT web.shop.svc:80 HTTP/1.1\r\nHost: web.shop.svc:80\r\nsignadot-cluster: prod\r\n%s\r\n\r\n", headers)
	r.must(err)
	from := bufio.NewReader(c)
	r.must(c.SetReadDeadline(time.Now().Add(5 * patience)))
	answer, err := http.ReadResponse(from, &http.Request{Method: http.MethodConnect})
	r.must(err)
	return answer.StatusCode, c, from
}

// echoed returns an error unless a connection repeats a line.
func echoed(c net.Conn, from *bufio.Reader) error {
	if _, err := io.WriteString(c, "hello\n"); err != nil {
		return err
	}
	line, err := from.ReadString('\n')
	if line != "hello\n" {
		return fmt.Errorf("received %q: %w", line, err)
	}
	return nil
}

// probe returns the status of a path of the metrics listener.
func (r *running) probe(path string) (int, string) {
	r.Helper()
	answer, err := http.Get("http://" + r.at("metrics") + path)
	r.must(err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	r.must(err)
	return answer.StatusCode, string(text)
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run sets the socket for commands.
func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "controlplane")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.Setenv("CONTROLPLANE_SOCKET", filepath.Join(dir, "admin.sock")); err != nil {
		panic(err)
	}
	return m.Run()
}
