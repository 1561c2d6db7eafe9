package controlplane

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/controlplane-link/controlplane"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/eventbus/trust"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/link/deliveries"
	"switchyard.dev/tests/sweep/life"
	"switchyard.dev/tests/sweep/workflows"
	"switchyard.dev/tools/switchyard"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
)

// patience is how long clusters may take on a busy machine.
const patience = 5 * time.Minute

// key is the API key of the administrator.
var key = "key-of-ada-" + strings.Repeat("a", 42)

// site is a control plane with clusters, each with an agent and an operator.
type site struct {
	*testing.T
	main     *controlplane.Main
	clusters map[string]client.WithWatch
	// worlds are the clusters, in the order of their names.
	worlds []*workflows.World
	http   *http.Client
	dir    string
}

// newSite has clusters of these names.
func newSite(t *testing.T, clusters ...string) *site {
	t.Helper()
	s := &site{T: t, clusters: map[string]client.WithWatch{}, dir: t.TempDir()}
	log := &background.Output{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(log.String())
		}
	})
	logger := slog.New(slog.NewTextHandler(log, nil))
	life.Quiet(logger)
	s.must(deliveries.Files(s.dir))
	s.start(logger)
	s.must(deliveries.Fill(t.Context(), s.main.Store(), clusters...))
	s.user()
	for _, name := range clusters {
		w, err := workflows.NewWorld(t.Context(), logger)
		s.must(err)
		t.Cleanup(func() {
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		})
		s.worlds = append(s.worlds, w)
		s.must(deliveries.Prepare(t.Context(), w.Server()))
		s.clusters[name], err = w.Server().Client()
		s.must(err)
		end, err := w.Operate(t.Context())
		s.must(err)
		t.Cleanup(end)
		background.Run(t, deliveries.Agent{
			Access: w.Server().Config, Dir: s.dir, Address: s.main.Listeners["agents"].Addr().String(), Token: deliveries.Token(name), Log: log,
		}.Run)
	}
	return s
}

// start starts the control plane.
func (s *site) start(logger *slog.Logger) {
	s.Helper()
	c, err := deliveries.Whole(s.dir, logger)
	s.must(err)
	s.Setenv("CONTROLPLANE_SOCKET", filepath.Join(s.dir, "admin.sock"))
	s.main, err = controlplane.New(s.Context(), c)
	s.must(err)
	background.Run(s.T, s.main.Run)
	authority, err := os.ReadFile(filepath.Join(s.dir, trust.BundleFile))
	s.must(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	s.http = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS13}}}
}

func (s *site) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// user creates an administrator with the key.
func (s *site) user() {
	s.Helper()
	in, ada := s.main.Store(), model.User{Org: deliveries.Organisation, ID: "u-ada", Email: "ada@example.com", Role: model.RoleAdmin}
	s.must(in.PutUser(s.Context(), ada, model.Event{Org: ada.Org, ID: "user", Type: "test"}))
	s.must(in.CreateAPIKey(s.Context(), model.APIKey{
		Org: ada.Org, ID: "key", Owner: model.Principal{Kind: model.KindUser, ID: ada.ID}, Masked: key[:6], Digest: model.DigestOf(key),
	}, model.Event{Org: ada.Org, ID: "key", Type: "test"}))
}

// call sends a request to the API, and returns the answer.
func (s *site) call(method, path, body string) (status int, text string) {
	s.Helper()
	at := fmt.Sprintf("https://%s/api/v2/orgs/%s/%s", s.main.Listeners["api"].Addr(), deliveries.Organisation, path)
	r, err := http.NewRequestWithContext(s.Context(), method, at, strings.NewReader(body))
	s.must(err)
	r.Header.Set("Signadot-Api-Key", key)
	answer, err := s.http.Do(r)
	s.must(err)
	defer answer.Body.Close()
	all, err := io.ReadAll(answer.Body)
	s.must(err)
	return answer.StatusCode, string(bytes.TrimSpace(all))
}

// run runs the command line, which ends with a code and prints words.
func (s *site) run(code exit.Code, words []string, args ...string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	var out bytes.Buffer
	env := map[string]string{"SIGNADOT_API_KEY": key}
	got := switchyard.Main(ctx, command.Config{Name: "switchyard", In: strings.NewReader(""), Out: &out, Err: &out, Getenv: func(name string) string { return env[name] }},
		append(args, "--control-plane", "https://"+s.main.Listeners["api"].Addr().String(), "--control-plane-ca", filepath.Join(s.dir, trust.BundleFile)))
	for _, word := range words {
		if !strings.Contains(out.String(), word) {
			s.Errorf("switchyard %s does not print %q: %s", strings.Join(args, " "), word, out.String())
		}
	}
	if got != code {
		s.Fatalf("switchyard %s: exit code %d, want %d: %s", strings.Join(args, " "), got, code, out.String())
	}
}

// file writes a specification to a file, and returns its path.
func (s *site) file(name string, spec any) string {
	s.Helper()
	text, err := json.Marshal(map[string]any{"name": name, "spec": spec})
	s.must(err)
	path := filepath.Join(s.dir, name+".yaml")
	s.must(os.WriteFile(path, text, 0o600))
	return path
}

// get reads an object.
func (s *site) get(path string, into any) error {
	status, answer := s.call(http.MethodGet, path, "")
	if status != http.StatusOK {
		return fmt.Errorf("GET %s: %d %s", path, status, answer)
	}
	return json.Unmarshal([]byte(answer), into)
}
