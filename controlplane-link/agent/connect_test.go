package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/eventbus/trust"
	"switchyard.dev/eventbus/trust/trusttest"
	crdv1 "switchyard.dev/protos/crd/v1"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	"switchyard.dev/tools/switchyard"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tunnels/credential/signed"
	"switchyard.dev/tunnels/keys"
	"switchyard.dev/tunnels/proxy"
	"switchyard.dev/tunnels/relay"
	"switchyard.dev/tunnels/workstation"
)

// tunnelProxy starts a tunnel proxy of the cluster, at port 7777 of this machine's address, where the
// agent reaches it.
func (s *site) tunnelProxy(t *testing.T) {
	t.Helper()
	_, err := keys.Ensure(t.Context(), s.Kube.CoreV1().Secrets(s.operator))
	s.Must(err)
	settings, err := proxy.ParseSettings([]string{"-namespace", s.operator, "-manager", s.operator + "/manager", "-ssh=false",
		"-socks5-address", "127.0.0.1:0", "-xap-address", net.JoinHostPort(s.backend.String(), "7777"), "-control-address", "127.0.0.1:0", "-metrics-address", "127.0.0.1:0",
		"-tls-dir", t.TempDir(), "-journal-dir", t.TempDir(), "-drain", "300ms"}, func(string) string { return "" }, io.Discard)
	s.Must(err)
	settings.AllowAPIServer = true // it is at the address of this machine, where the test's servers are
	settings.Config.Recheck = 200 * time.Millisecond
	authority := trusttest.New(t, "operator")
	authority.Write(t, settings.TLSDir, authority.Leaf(t, proxy.Name))
	s.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.operator, Name: "signadot-authority"}, Data: map[string]string{trust.BundleFile: string(authority.Bundle())}})
	config, err := settings.Open(t.Context(), s.Config, s.log, slog.New(slog.NewTextHandler(s.log, nil)))
	s.Must(err)
	config.WorkloadHost = "127.0.0.1"
	main, err := proxy.New(config)
	s.Must(err)
	s.run(t, func(ctx context.Context) error {
		defer config.Audit.Close()
		return main.Run(ctx)
	})
	s.service(s.operator, "tunnel-proxy")
	s.names.set("tunnel-proxy."+s.operator+".svc", s.backend.String())
}

// front is the control plane's server for users: it forwards CONNECT to tunnel proxies, and issues
// grants, to holders of a key that is not revoked.
func (s *site) front(t *testing.T, revoked *atomic.Bool) *httptest.Server {
	t.Helper()
	user := &linkv1.Caller{Name: "jo", Roles: []string{"dev"}, ApiKey: true}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case revoked.Load() || r.Header.Get("Signadot-Api-Key") != "s3cret-key" || r.Header.Get("Signadot-Cluster") != prod.Name:
			http.Error(w, "the key is not known", http.StatusUnauthorized)
		case r.Method == http.MethodPost && r.URL.Path == signed.GrantPath:
			kube := s.server.Transport(prod, &linkv1.Caller{})
			defer kube.CloseIdleConnections()
			grant, err := s.issuer.Grant(r.Context(), kube, s.operator, prod, user)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
				return
			}
			_ = json.NewEncoder(w).Encode(grant)
		case r.Method == http.MethodConnect && r.Host == proxy.Name+":7777":
			there, err := s.server.Open(r.Context(), prod, service(user, "tunnel-proxy."+s.operator+".svc", 7777))
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
				return
			}
			here, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n")
			relay.Pipe(relay.Of(here), relay.Of(there))
		default:
			http.Error(w, r.Method+" "+r.Host+r.URL.Path, http.StatusNotFound)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// machine is a workstation without a kubeconfig.
type machine struct {
	*site
	dir  string
	args []string
}

// does runs a command of switchyard until it or ctx ends.
func (m *machine) does(ctx context.Context, args ...string) (exit.Code, string) {
	var out bytes.Buffer
	config := command.Config{Name: "switchyard"}
	config.In, config.Out, config.Err = strings.NewReader(""), &out, &out
	config.Getenv = func(name string) string { return map[string]string{"XDG_RUNTIME_DIR": m.dir}[name] }
	code := switchyard.Main(ctx, config, slices.Concat(args[:1], m.args, args[1:]))
	return code, out.String()
}

// ways returns the local addresses of a running connect.
func (m *machine) ways() (address string, err error) {
	plain := &machine{m.site, m.dir, nil}
	_, out := plain.does(m.Context(), "connect", "status", "-o", "json")
	var all []workstation.Status
	if err := json.Unmarshal([]byte(out), &all); err != nil || len(all) != 1 || !all[0].Connected || len(all[0].Ways) == 0 {
		return "", fmt.Errorf("it is not connected: %s, %w", out, err)
	}
	return all[0].Ways[0].Address, nil
}

// TestConnectWithoutAKubeconfig runs the command line against a control plane, an agent and a tunnel
// proxy.
func TestConnectWithoutAKubeconfig(t *testing.T) {
	s := newSite(t)
	s.tunnelProxy(t)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "linked-"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{crdv1.Group}, Resources: []string{"signadotsandboxes"}, Verbs: []string{"list"}}}}
	s.Create(role)
	s.Create(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{GenerateName: "linked-"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "switchyard:controlplane:acme:dev"}}})
	var revoked atomic.Bool
	m := &machine{site: s, dir: t.TempDir()}
	file := filepath.Join(m.dir, "key")
	s.Must(os.WriteFile(file, []byte("s3cret-key\n"), 0o600))
	m.args = []string{"--kubeconfig", os.DevNull, "--proxy-url", s.front(t, &revoked).URL, "--cluster", prod.Name, "--api-key-file", file}
	s.Eventually("doctor finds nothing wrong", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		code, text := m.does(ctx, "doctor")
		if !strings.Contains(text, "ok       the proxy accepts this workstation") || !strings.Contains(text, ", as switchyard:controlplane:acme:jo") {
			return fmt.Errorf("%d: %s", code, text)
		}
		return nil
	})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan string, 1)
	go func() {
		_, text := m.does(ctx, "connect", "--socks5", "", "--http-proxy", "", "--map", fmt.Sprintf("tcp://%s:%d@localhost:0", s.backend, s.port))
		ended <- text
	}()
	t.Cleanup(func() {
		stop()
		if text := <-ended; strings.Contains(text, "s3cret") || t.Failed() {
			t.Errorf("connect wrote:\n%s", text)
		}
	})
	reach := func() error {
		address, err := m.ways()
		if err != nil {
			return err
		}
		c, err := net.Dial("tcp", address)
		if err != nil {
			return err
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		if text, err := io.ReadAll(c); err != nil || string(text) != "backend" {
			return fmt.Errorf("it read %q, %w", text, err)
		}
		return nil
	}
	s.Eventually("a server of the cluster is reached", reach)
	const refused = "No key of the control plane that this cluster accepts has signed the credential"
	s.Must(s.issuer.Set(keyOf(2)))
	s.Eventually("the session of the removed key ends", func() error {
		if !strings.Contains(s.log.String(), refused) {
			return errors.New("it has not")
		}
		return nil
	})
	s.Eventually("it is reached again with a credential of the new key", reach)
	revoked.Store(true)
	s.Must(s.issuer.Set(keyOf(3)))
	s.Eventually("the user of a revoked key is not connected", func() error {
		if address, err := m.ways(); err == nil {
			return errors.New("it is, at " + address)
		}
		return nil
	})
	if code, text := m.does(t.Context(), "run", "--sandbox", "mine", "--", "true"); code != exit.Unavailable || !strings.Contains(text, "kubeconfig") {
		t.Errorf("run without a kubeconfig: %d, %s", code, text)
	}
}
