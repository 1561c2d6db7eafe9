package login_test

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/net/html"

	"switchyard.dev/controlplane-link/controlplane/login"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/rest"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/controlplane/store/seal"
	v2 "switchyard.dev/protos/controlplane/v2"
	"switchyard.dev/tests/selfsigned"
)

const (
	org      = "acme"
	clientID = "switchyard"
	secret   = "a-client-secret-with-a-+-and-a-/"
)

// world is a control plane with pages of logins and the API, over TLS, and an issuer.
type world struct {
	*testing.T
	store  *store.Store
	config login.Config
	server *httptest.Server
	issuer *issuer
	// later is added to the time.
	later time.Duration
	// remote is the address of all clients; empty: their own.
	remote string

	mu      sync.Mutex
	handler http.Handler
}

// newWorld starts a control plane with mappings that give role admin to group ops. start starts its issuer, and
// returns the issuer's URL; nil: that of this package.
func newWorld(t *testing.T, start func(callback, cert, key string) string) *world {
	t.Helper()
	w, dir := &world{T: t}, t.TempDir()
	keys, err := seal.Parse("first " + base64.StdEncoding.EncodeToString(make([]byte, 32)))
	w.must(err)
	w.store, err = store.Open(t.Context(), store.Config{Path: filepath.Join(dir, "store.db"), Keys: keys})
	w.must(err)
	ev := model.Event{Org: org, ID: rand.Text(), Type: "test", By: model.Principal{Kind: model.KindSystem, ID: "test"}, Method: model.MethodInternal}
	w.must(w.store.CreateOrganisation(t.Context(), model.Organisation{Name: org, DisplayName: org}, ev))
	w.server = httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		r.RemoteAddr = cmp.Or(w.remote, r.RemoteAddr)
		w.current().ServeHTTP(rw, r)
	}))
	own := "https://" + w.server.Listener.Addr().String()

	pair, err := selfsigned.New("issuer", net.IPv4(127, 0, 0, 1))
	w.must(err)
	cert, key, secretFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), filepath.Join(dir, "secret")
	for path, text := range map[string]string{cert: string(pair.Cert), key: string(pair.Key), secretFile: secret + "\n"} {
		w.must(os.WriteFile(path, []byte(text), 0o600))
	}
	if start == nil {
		start = func(callback, cert, key string) string {
			w.issuer = newIssuer(t, callback, cert, key)
			return w.issuer.server.URL
		}
	}
	at := start(own+"/login/callback", cert, key)
	settings := filepath.Join(dir, "login.yaml")
	w.must(os.WriteFile(settings, []byte("issuer: "+at+"\nclientID: "+clientID+"\nclientSecretFile: "+secretFile+"\ncaFile: "+cert+"\nscopes: [openid, email, profile]\n"+
		"mappings:\n- {value: ops, organisation: acme, role: admin}\n- {claim: email, value: jo@example.com, organisation: acme, role: member}\n- {value: lost, organisation: none, role: member}\n"), 0o600))
	read, err := login.Read(settings)
	w.must(err)
	w.config = login.Config{Settings: read, Store: w.store, Keys: keys, URL: own, Now: w.now, Logger: slog.New(slog.DiscardHandler)}
	w.server.StartTLS()
	t.Cleanup(func() {
		w.server.Close()
		w.must(w.store.Close())
	})
	w.replica()
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) now() time.Time { return time.Now().Add(w.later) }

// current is the replica that serves now.
func (w *world) current() http.Handler {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.handler
}

// replica lets another replica serve, with nothing but the store and the keys.
func (w *world) replica() {
	h, err := login.New(w.config)
	w.must(err)
	s, mux := w.store, http.NewServeMux()
	mux.Handle(login.Prefix, h)
	mux.Handle("/", rest.New(rest.Config{
		Store: s, LoginURL: h.DeviceURL(), Forwards: w.config.Forwards, Now: w.now, Logger: slog.New(slog.DiscardHandler),
	}))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handler = mux
}

// api sends a request to the API, and decodes the answer.
func (w *world) api(method, path, body, bearer string, into any) (status int) {
	w.Helper()
	req, err := http.NewRequestWithContext(w.Context(), method, w.server.URL+"/api/v2"+path, strings.NewReader(body))
	w.must(err)
	req.Header.Set("Content-Type", "application/json")
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	res, err := w.server.Client().Do(req)
	w.must(err)
	defer res.Body.Close()
	w.must(json.NewDecoder(res.Body).Decode(into))
	return res.StatusCode
}

// device begins the login of a device.
func (w *world) device() (c v2.AuthdevicesCode) {
	w.Helper()
	if status := w.api("POST", "/auth/device/code/", "", "", &c); status != http.StatusOK {
		w.Fatalf("status %d", status)
	}
	return c
}

// poll asks for the token of a device.
func (w *world) poll(c v2.AuthdevicesCode) (token v2.AuthdevicesToken, status int) {
	w.Helper()
	w.later += 10 * time.Second
	status = w.api("POST", "/auth/device/token/", `{"deviceCode":"`+c.DeviceCode+`"}`, "", &token)
	return token, status
}

// browser is a person's browser.
type browser struct {
	*world
	client http.Client
	// origin is that of the page, which is sent with forms; "": none is sent.
	origin string
}

func (w *world) browser() *browser {
	w.Helper()
	jar, err := cookiejar.New(nil)
	w.must(err)
	transport := w.server.Client().Transport.(*http.Transport).Clone()
	if text, err := os.ReadFile(w.config.Settings.CAFile); err != nil || !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(text) {
		w.Fatal("no authority", err)
	}
	w.Cleanup(transport.CloseIdleConnections)
	return &browser{world: w, client: http.Client{Jar: jar, Transport: transport}, origin: w.server.URL}
}

// view is a page in a browser.
type view struct {
	*browser
	status int
	url    *url.URL
	header http.Header
	text   string
}

func (b *browser) do(method, at string, form url.Values) view {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), method, at, strings.NewReader(form.Encode()))
	b.must(err)
	if method == "POST" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if b.origin != "" {
			req.Header.Set("Origin", b.origin)
		}
	}
	res, err := b.client.Do(req)
	b.must(err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	b.must(err)
	return view{b, res.StatusCode, res.Request.URL, res.Header, string(text)}
}

func (b *browser) get(at string) view { b.Helper(); return b.do("GET", at, nil) }

// page gets a page of logins.
func (b *browser) page(path string) view { b.Helper(); return b.get(b.server.URL + "/login/" + path) }

// cookies are those that the browser sends to the control plane.
func (b *browser) cookies() map[string]*http.Cookie {
	u, err := url.Parse(b.server.URL)
	b.must(err)
	out := map[string]*http.Cookie{}
	for _, c := range b.client.Jar.Cookies(u) {
		out[c.Name] = c
	}
	return out
}

// follow follows the link with a text that begins so.
func (v view) follow(text string) view {
	v.Helper()
	for _, n := range v.elements("a") {
		if n.FirstChild != nil && strings.HasPrefix(n.FirstChild.Data, text) {
			to, err := v.url.Parse(attributes(n)["href"])
			v.must(err)
			return v.get(to.String())
		}
	}
	v.Fatalf("no link %q in %s", text, v.text)
	return v
}

// fields are those of the form that has a button or a field with a name, and where it is sent to.
func (v view) fields(with string) (form url.Values, to string) {
	v.Helper()
	for _, f := range v.elements("form") {
		form, has := url.Values{}, false
		for n := range f.Descendants() {
			a := attributes(n)
			if n.Data == "input" && a["name"] != "" {
				form.Set(a["name"], a["value"])
			}
			has = has || a["name"] == with || n.Type == html.TextNode && n.Data == with
		}
		if has {
			at, err := v.url.Parse(attributes(f)["action"])
			v.must(err)
			return form, at.String()
		}
	}
	v.Fatalf("no form with %q in %s", with, v.text)
	return nil, ""
}

// submit sends the form with a button or a field, with more fields.
func (v view) submit(with string, more ...string) view {
	v.Helper()
	form, to := v.fields(with)
	for i := 0; i+1 < len(more); i += 2 {
		form.Set(more[i], more[i+1])
	}
	return v.do("POST", to, form)
}

func (v view) elements(name string) (out []*html.Node) {
	root, err := html.Parse(strings.NewReader(v.text))
	v.must(err)
	for n := range root.Descendants() {
		if n.Type == html.ElementNode && n.Data == name {
			out = append(out, n)
		}
	}
	return out
}

func attributes(n *html.Node) map[string]string {
	out := map[string]string{}
	for _, a := range n.Attr {
		out[a.Key] = a.Val
	}
	return out
}

// want fails unless a page has a status and a text.
func (v view) want(status int, text string) view {
	v.Helper()
	if v.status != status || !strings.Contains(v.text, text) {
		v.Errorf("%s: status %d, want %d with %q:\n%s", v.url, v.status, status, text, v.text)
	}
	return v
}

// issuer is an issuer that does what a test requests of it. It logs every person in at once.
type issuer struct {
	*testing.T
	server *httptest.Server
	// change changes the ID token. sign is the key and alg its algorithm; published is the key that clients know.
	change          func(map[string]any)
	alg             jose.SignatureAlgorithm
	sign, published any
	// person are the claims of userinfo; nil: there is no such endpoint.
	person map[string]any

	// elsewhere is the URL to which the issuer redirects the exchange of a code; empty: it does not.
	elsewhere string
	// broken: the issuer fails to exchange codes.
	broken bool

	mu     sync.Mutex
	logins map[string]url.Values
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newIssuer(t *testing.T, callback, cert, key string) *issuer {
	t.Helper()
	private := newKey(t)
	i := &issuer{T: t, alg: jose.ES256, sign: private, published: private.Public(), logins: map[string]url.Values{}, change: func(map[string]any) {}}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		at := i.server.URL
		c := map[string]any{"issuer": at, "authorization_endpoint": at + "/auth", "token_endpoint": at + "/token", "jwks_uri": at + "/keys", "id_token_signing_alg_values_supported": []string{"ES256"}}
		if i.person != nil {
			c["userinfo_endpoint"] = at + "/userinfo"
		}
		i.answer(w, c)
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		i.answer(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: i.published, KeyID: "k", Algorithm: "ES256", Use: "sig"}}})
	})
	mux.HandleFunc("/userinfo", func(w http.ResponseWriter, _ *http.Request) { i.answer(w, i.person) })
	mux.HandleFunc("/auth", func(w http.ResponseWriter, r *http.Request) {
		q, code := r.URL.Query(), rand.Text()
		if q.Get("redirect_uri") != callback || q.Get("client_id") != clientID || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" {
			http.Error(w, "the request is not valid", http.StatusBadRequest)
			return
		}
		i.mu.Lock()
		i.logins[code] = q
		i.mu.Unlock()
		http.Redirect(w, r, callback+"?"+url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {i.server.URL}}.Encode(), http.StatusFound)
	})
	mux.HandleFunc("/token", i.token)
	i.server = httptest.NewUnstartedServer(mux)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	i.server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	i.server.StartTLS()
	t.Cleanup(i.server.Close)
	return i
}

func (i *issuer) answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		i.Error(err)
	}
}

// token exchanges a code, once, for its verifier and the client's secret.
func (i *issuer) token(w http.ResponseWriter, r *http.Request) {
	if i.broken {
		http.Error(w, "out of order", http.StatusInternalServerError)
		return
	}
	if i.elsewhere != "" {
		http.Redirect(w, r, i.elsewhere, http.StatusTemporaryRedirect)
		return
	}
	i.mu.Lock()
	q := i.logins[r.FormValue("code")]
	delete(i.logins, r.FormValue("code"))
	i.mu.Unlock()
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	user, password, _ := r.BasicAuth()
	password, err := url.QueryUnescape(password)
	if q == nil || base64.RawURLEncoding.EncodeToString(sum[:]) != q.Get("code_challenge") || user != clientID || password != secret || err != nil {
		w.WriteHeader(http.StatusBadRequest)
		i.answer(w, map[string]string{"error": "invalid_grant"})
		return
	}
	now := time.Now()
	claims := map[string]any{
		"iss": i.server.URL, "sub": "person-1", "aud": clientID, "nonce": q.Get("nonce"), "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
		"email": "ada@example.com", "email_verified": true, "groups": []string{"everyone", "ops"}, "given_name": "Ada", "family_name": "Byron",
	}
	i.change(claims)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: i.alg, Key: jose.JSONWebKey{Key: i.sign, KeyID: "k"}}, nil)
	if err != nil {
		i.Error(err)
		return
	}
	text, err := json.Marshal(claims)
	if err != nil {
		i.Error(err)
		return
	}
	signed, err := signer.Sign(text)
	if err != nil {
		i.Error(err)
		return
	}
	raw, err := signed.CompactSerialize()
	if err != nil {
		i.Error(err)
	}
	i.answer(w, map[string]any{"access_token": "access-canary", "token_type": "Bearer", "expires_in": 300, "id_token": raw})
}

// events are the types of the entries in the audit trail, the oldest first.
func (w *world) events() (out []string) {
	w.Helper()
	all, err := w.store.Events(context.Background(), org, model.EventQuery{Limit: 1000})
	w.must(err)
	for _, e := range all {
		out = append([]string{e.Type}, out...)
	}
	return out
}

// users are the users of the organisation.
func (w *world) users() []model.User {
	w.Helper()
	all, err := w.store.Users(context.Background(), org)
	w.must(err)
	return all
}
