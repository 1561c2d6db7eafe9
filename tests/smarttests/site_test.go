package smarttests

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/controlplane-link/agent"
	"switchyard.dev/controlplane-link/controlplane"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/eventbus/memory"
	"switchyard.dev/eventbus/trust"
	v2 "switchyard.dev/protos/controlplane/v2"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/job"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/link/deliveries"
	"switchyard.dev/tests/runners"
	"switchyard.dev/tests/sweep/jobs"
	"switchyard.dev/tests/sweep/life"
	"switchyard.dev/tests/sweep/wire"
	"switchyard.dev/tests/world"
	"switchyard.dev/tools/wait"
	"switchyard.dev/workflows/jobpod"
	"switchyard.dev/workflows/smarttest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	runners.Clean()
	os.Exit(code)
}

// patience is how long a run may take on a busy machine.
const patience = 5 * time.Minute

// Eventually is that of World, with more patience.
func (s *site) Eventually(what string, check func() error) {
	s.Helper()
	wait.Eventually(s, patience, what, check)
}

const (
	cluster      = "east"
	agentAccount = "system:serviceaccount:signadot:signadot-agent"
)

// key is the API key of the administrator.
var key = "key-of-ada-" + strings.Repeat("a", 42)

// site is a control plane with one cluster, and an application that tests send requests to.
type site struct {
	*world.World
	main *controlplane.Main
	http *http.Client
	dir  string
	// app answers requests of tests.
	app *application
}

// newSite starts one.
func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{World: world.New(t), dir: t.TempDir(), app: newApplication(t)}
	log := &background.Output{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(log.String())
		}
	})
	logger := slog.New(slog.NewTextHandler(log, nil))
	life.Quiet(logger)
	s.Must(deliveries.Files(s.dir))
	s.Must(deliveries.Prepare(t.Context(), s.Server))
	s.Accounts(crdv1.SmartTestsNamespace, "default")
	s.Accounts("signadot", "signadot-agent")
	service := runners.Serve(s.World, "signadot", agentAccount)
	s.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "signadot", Name: "signadot-authority"}, Data: map[string]string{trust.BundleFile: service.CA}})
	node := jobs.NewNode(t, s.Kube, crdv1.SmartTestsNamespace, smarttest.EnvAllow+"="+s.app.address)
	background.Run(t, node.Run)
	s.manage(service, logger)
	s.plane(logger)
	account := filepath.Join(s.dir, "account-token")
	s.Must(os.WriteFile(account, []byte(s.Token("signadot", "signadot-agent", "", nil)+"\n"), 0o600))
	background.Run(t, deliveries.Agent{
		Access: s.As(""), Dir: s.dir, Address: s.main.Listeners["agents"].Addr().String(), Token: deliveries.Token(cluster), Log: log,
		Change: func(a *agent.Settings) { a.Runners, a.AccountTokenFile = service.Address, account },
	}.Run)
	return s
}

// manage starts the manager.
func (s *site) manage(service *runners.Service, logger *slog.Logger) {
	s.Helper()
	main, err := life.Begin(context.Background(), wire.NewGate(wire.Faults{}, wire.NewLedger()), s.As(""), memory.NewStore().Open(), manager.Config{
		Namespace: "signadot", Logger: logger, Jobs: manager.Jobs{
			Settings: jobpod.Settings{InitImage: "i", ProxyImage: "p", Authority: service.Address, CA: service.CA, SmartTest: jobpod.SmartTest{Image: "interpreter"}},
			Runners:  job.Reach(service.Keys.Authority, service.Keys.Issue),
		},
	})
	s.Must(err)
	s.Cleanup(main.End)
}

// plane starts the control plane, with an administrator.
func (s *site) plane(logger *slog.Logger) {
	s.Helper()
	program := filepath.Join(s.dir, "smart-test")
	if text, err := exec.CommandContext(s.Context(), "go", "build", "-trimpath", "-o", program, "switchyard.dev/workflows/cmd/smart-test").CombinedOutput(); err != nil {
		s.Fatalf("build the interpreter: %v: %s", err, text)
	}
	c, err := deliveries.Whole(s.dir, logger)
	s.Must(err)
	c.SmartTest, c.Artifacts.Folder = program, filepath.Join(s.dir, "artifacts")
	s.TB.Setenv("CONTROLPLANE_SOCKET", filepath.Join(s.dir, "admin.sock"))
	s.main, err = controlplane.New(s.Context(), c)
	s.Must(err)
	background.Run(s.TB, s.main.Run)
	s.Must(deliveries.Fill(s.Context(), s.main.Store(), cluster))
	in, ada := s.main.Store(), model.User{Org: deliveries.Organisation, ID: "u-ada", Email: "ada@example.com", Role: model.RoleAdmin}
	s.Must(errors.Join(
		in.PutUser(s.Context(), ada, model.Event{Org: ada.Org, ID: "user", Type: "test"}),
		in.CreateAPIKey(s.Context(), model.APIKey{
			Org: ada.Org, ID: "key", Owner: model.Principal{Kind: model.KindUser, ID: ada.ID}, Masked: key[:6], Digest: model.DigestOf(key),
		}, model.Event{Org: ada.Org, ID: "key", Type: "test"}),
	))
	authority, err := os.ReadFile(filepath.Join(s.dir, trust.BundleFile))
	s.Must(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	s.http = &http.Client{Timeout: world.Patience, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS13}}}
}

// call sends a request to the API, and reads the answer.
func (s *site) call(method, path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	at := fmt.Sprintf("https://%s/api/v2/orgs/%s/%s", s.main.Listeners["api"].Addr(), deliveries.Organisation, path)
	r, err := http.NewRequestWithContext(s.Context(), method, at, bytes.NewReader(text))
	if err != nil {
		return err
	}
	r.Header.Set("Signadot-Api-Key", key)
	answer, err := s.http.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	all, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return err
	case answer.StatusCode != http.StatusOK:
		return fmt.Errorf("%s %s: %d: %s", method, path, answer.StatusCode, all)
	case into == nil:
		return nil
	}
	return json.Unmarshal(all, into)
}

// do is call, which succeeds.
func (s *site) do(method, path string, body, into any) {
	s.Helper()
	s.Must(s.call(method, path, body, into))
}

// sandbox applies a sandbox.
func (s *site) sandbox(name string) v2.Sandbox {
	s.Helper()
	var out v2.Sandbox
	s.do("PUT", "sandboxes/"+name, map[string]any{"name": name, "spec": map[string]any{"cluster": cluster, "endpoints": []any{
		map[string]any{"name": "front", "host": "front.shop.svc", "port": 80, "protocol": "http"}, // without a workload it is ready
	}}}, &out)
	return out
}

// run begins a test in the context of a sandbox; empty: on the baseline alone.
func (s *site) run(name, sandbox, script, timeout string) v2.TestExecution {
	s.Helper()
	in := map[string]any{"cluster": cluster, "runID": "run-" + name, "timeout": timeout}
	if sandbox != "" {
		in["routing"] = map[string]any{"sandbox": sandbox}
	}
	var x v2.TestExecution
	s.do("POST", "tests/executions/", map[string]any{"spec": map[string]any{
		"executionContext": in, "external": map[string]any{"testName": name, "script": strings.ReplaceAll(script, "APP", s.app.address)}, "labels": map[string]any{"area": "front"},
	}}, &x)
	return x
}

// execution reads one.
func (s *site) execution(id string) (x v2.TestExecution) {
	s.Helper()
	s.do("GET", "tests/executions/"+id, nil, &x)
	return x
}

// ends waits for the end of an execution.
func (s *site) ends(x v2.TestExecution, phase v2.TestexecutionsPhase) v2.TestExecution {
	s.Helper()
	s.Eventually("test execution "+x.ID+" has ended", func() error {
		if x = s.execution(x.ID); x.Status.Phase == "pending" || x.Status.Phase == "in_progress" {
			return fmt.Errorf("it is %s", x.Status.Phase)
		}
		return nil
	})
	if x.Status.Phase != phase || x.Status.StartedAt == nil || x.Status.FinishedAt == nil {
		s.Errorf("it is %s, not %s: %s", x.Status.Phase, phase, print(x))
	}
	return x
}

func print(of any) string {
	text, _ := json.Marshal(of) // it was decoded from JSON
	return string(text)
}

// application answers as a baseline, or as its fork a request with a routing key.
type application struct {
	address string
	mu      sync.Mutex
	n       int
	// waits has the requests to /wait, which are not answered before it is closed.
	waits chan struct{}
}

func newApplication(t *testing.T) *application {
	a := &application{waits: make(chan struct{})}
	server := httptest.NewServer(http.HandlerFunc(a.serve))
	a.address = server.Listener.Addr().String()
	t.Cleanup(func() { close(a.waits); server.Close() })
	return a
}

func (a *application) serve(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.n++
	n := a.n
	a.mu.Unlock()
	if r.URL.Path == "/wait" {
		select {
		case <-a.waits:
		case <-r.Context().Done():
		}
		return
	}
	if r.URL.Path != "/list" {
		published(w, r)
		return
	}
	keyed := strings.Contains(r.Header.Get("Baggage"), "sd-routing-key=")
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"request": "%032x", "names": ["a", "b"], "price": %d}`, n*7919, map[bool]int{false: 10, true: 12}[keyed])
}

// published answers as the applications of published examples do.
func published(out http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // of a test
	user, password, _ := r.BasicAuth()
	out.Header().Set("X-Method", r.Method)
	out.Header().Set("X-Auth", user+":"+password)
	switch r.URL.Path {
	case "/items":
		_ = json.NewEncoder(out).Encode(map[string]any{"name": "jane", "size": 10, "query": r.URL.RawQuery, "header": r.Header.Get("X-My-Header")})
	case "/orders":
		out.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(out).Encode(map[string]any{"order": json.RawMessage(body)})
	default:
		_, _ = out.Write(body)
	}
}
