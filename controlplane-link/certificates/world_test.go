package certificates_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"switchyard.dev/controlplane-link/certificates"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/controlplane/store/seal"
	"switchyard.dev/eventbus/trust/trusttest"
	"switchyard.dev/tests/port"
	"switchyard.dev/tools/wait"
)

// pebble builds the ACME server of tests/acme once.
var pebble = sync.OnceValues(func() (string, error) {
	var err error
	if built, err = os.MkdirTemp("", "pebble"); err != nil {
		return "", err
	}
	program := filepath.Join(built, "pebble")
	out, err := exec.Command("go", "build", "-C", "../../tests/acme", "-trimpath", "-o", program, "github.com/letsencrypt/pebble/v2/cmd/pebble").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build pebble: %w: %s", err, out)
	}
	return program, nil
})

// built is the folder of pebble; empty: no test needed it.
var built string

func TestMain(m *testing.M) {
	code := m.Run()
	if built != "" {
		_ = os.RemoveAll(built) // it is in a temporary folder
	}
	os.Exit(code)
}

// world is an ACME server, a nameserver and a store.
type world struct {
	*testing.T
	dns           *nameserver
	store         *store.Store
	clock         atomic.Int64
	dir, ca       string
	root          []byte // of the ACME server
	acme, manages int    // ports
	behind        int    // port of pebble, behind that of the ACME server
	end           func()
	client        *http.Client
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, dns: newNameserver(t), dir: t.TempDir(), acme: port.Of(t), manages: port.Of(t), behind: port.Of(t)}
	w.now(time.Now())
	authority := trusttest.New(t, "authority of the ACME server")
	authority.Write(t, w.dir, authority.Leaf(t, "127.0.0.1"))
	w.ca = filepath.Join(w.dir, "ca.crt")
	w.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots(t, authority.Bundle()), MinVersion: tls.VersionTLS12}}}
	keys, err := seal.Parse("first " + base64.StdEncoding.EncodeToString(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	if w.store, err = store.Open(t.Context(), store.Config{Path: filepath.Join(w.dir, "store.db"), Keys: keys}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.store.Close() }) // the test is over
	w.settings("")
	w.startACME()
	return w
}

// now sets the clock of the replicas.
func (w *world) now(to time.Time) { w.clock.Store(to.UnixNano()) }

// settings writes the settings of DNS updates, with another line.
func (w *world) settings(line string) {
	w.Helper()
	all := map[string]string{"nameserver": w.dns.address, "keyName": "switchyard", "secret": secret}
	delete(all, strings.SplitN(line, ":", 2)[0])
	for k, v := range all {
		line += fmt.Sprintf("\n%s: %q", k, v)
	}
	trusttest.File(w, w.dir, "rfc2136.yaml", []byte(line))
}

// startACME starts the ACME server, without accounts and certificates: it keeps them in memory.
func (w *world) startACME() {
	w.Helper()
	program, err := pebble()
	if err != nil {
		w.Fatal(err)
	}
	config, _ := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": fmt.Sprintf("127.0.0.1:%d", w.behind), "managementListenAddress": fmt.Sprintf("127.0.0.1:%d", w.manages),
		"certificate": filepath.Join(w.dir, "tls.crt"), "privateKey": filepath.Join(w.dir, "tls.key"), "keyAlgorithm": "ecdsa",
		"retryAfter": map[string]int{"authz": 1, "order": 1},
	}})
	trusttest.File(w, w.dir, "pebble.json", config)
	cmd := exec.Command(program, "-strict", "-config", filepath.Join(w.dir, "pebble.json"), "-dnsserver", w.dns.address)
	cmd.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1", "PEBBLE_AUTHZREUSE=0")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	w.end = sync.OnceFunc(func() {
		_ = cmd.Process.Kill() // it can have ended
		_ = cmd.Wait()
		if w.Failed() {
			w.Logf("pebble: %s", &out)
		}
	})
	w.Cleanup(w.end)
	wait.Eventually(w, 5*time.Minute, "the ACME server", func() error {
		w.root, err = w.manage(http.MethodGet, "/roots/0", nil)
		return err
	})
	w.front(w.end)
}

// front is the ACME server for clients: it forwards requests to pebble. After a challenge or a finalization the client reads
// the result at once, and again seconds later if it is not there: a moment for pebble before the answer avoids that.
func (w *world) front(end func()) {
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", w.acme))
	if err != nil {
		w.Fatal(err)
	}
	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: &httputil.ReverseProxy{
		Transport: w.client.Transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "https", fmt.Sprintf("127.0.0.1:%d", w.behind) // the header Host is the client's
		},
		ModifyResponse: func(answer *http.Response) error {
			if path := answer.Request.URL.Path; strings.HasPrefix(path, "/chalZ/") || strings.HasPrefix(path, "/finalize-order/") {
				answer.Header.Set("Retry-After", "1") // instead of the five seconds that a client waits without it
				time.Sleep(100 * time.Millisecond)
			}
			return refuseReuse(answer)
		},
	}}
	go func() { _ = s.ServeTLS(listener, filepath.Join(w.dir, "tls.crt"), filepath.Join(w.dir, "tls.key")) }() // until Close
	w.end = func() {
		_ = s.Close() // the test is over, or the server is to be away
		end()
	}
	w.Cleanup(w.end)
}

// refuseReuse turns the answer to an order that needs no challenge into an error after which a client sends the order again:
// with PEBBLE_AUTHZREUSE=0 too, pebble reuses the authorization of an earlier order once in a hundred times.
func refuseReuse(answer *http.Response) error {
	if answer.Request.URL.Path != "/order-plz" || answer.StatusCode != http.StatusCreated {
		return nil
	}
	body, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return err
	}
	var order struct{ Status string }
	if err := json.Unmarshal(body, &order); err != nil {
		return err
	}
	if order.Status == "ready" {
		answer.StatusCode, answer.Status = http.StatusBadRequest, ""
		body = []byte(`{"type": "urn:ietf:params:acme:error:badNonce", "detail": "the order reuses an authorization"}`)
	}
	answer.Body = io.NopCloser(bytes.NewReader(body))
	answer.Header.Set("Content-Length", strconv.Itoa(len(body)))
	return nil
}

// stopACME stops the ACME server.
func (w *world) stopACME() { w.end() }

// manage sends a request to the management interface of the ACME server.
func (w *world) manage(method, path string, body []byte) ([]byte, error) {
	r, err := http.NewRequestWithContext(context.Background(), method, fmt.Sprintf("https://127.0.0.1:%d%s", w.manages, path), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	answer, err := w.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", answer.StatusCode, text)
	}
	return text, err
}

// replica is a replica of the control plane.
type replica struct {
	*certificates.Source
	w       *world
	metrics *prometheus.Registry
	log     bytes.Buffer
}

func (w *world) replica(domains ...string) *replica {
	w.Helper()
	r := &replica{w: w}
	r.restart(domains...)
	return r
}

// restart forgets all that is in memory.
func (r *replica) restart(domains ...string) {
	r.w.Helper()
	r.metrics = prometheus.NewRegistry()
	s, err := certificates.New(certificates.Config{
		Domains: domains, Store: r.w.store, Metrics: r.metrics, Logger: slog.New(slog.NewTextHandler(&r.log, nil)),
		Now: func() time.Time { return time.Unix(0, r.w.clock.Load()) },
		ACME: &certificates.ACME{
			Directory: fmt.Sprintf("https://127.0.0.1:%d/dir", r.w.acme), AcceptTerms: true, Email: "ops@example.net",
			CAFile: r.w.ca, RFC2136: filepath.Join(r.w.dir, "rfc2136.yaml"),
		},
	})
	if err != nil {
		r.w.Fatal(err)
	}
	r.Source = s
}

// check checks once, and expects parts of the problem and of the reason of each certificate; empty: there is none.
func (r *replica) check(problem, reason string) {
	r.w.Helper()
	r.Check(r.w.Context())
	for _, s := range r.States() {
		if !contains(s.Problem, problem) || !contains(s.Reason, reason) {
			r.w.Fatalf("want problem %q, reason %q: %+v", problem, reason, s)
		}
	}
}

// leaf is the certificate for a host.
func (r *replica) leaf(host string) *x509.Certificate {
	r.w.Helper()
	cert, err := r.Server().GetCertificate(&tls.ClientHelloInfo{ServerName: host})
	if err != nil || cert == nil {
		r.w.Fatalf("no certificate for %s: %v", host, err)
	}
	return cert.Leaf
}
