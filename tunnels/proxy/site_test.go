package proxy_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/eventbus/trust/trusttest"
	crdv1 "switchyard.dev/protos/crd/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/world"
	"switchyard.dev/tunnels/audit"
	"switchyard.dev/tunnels/carrier"
	"switchyard.dev/tunnels/controlkeys"
	"switchyard.dev/tunnels/keys"
	"switchyard.dev/tunnels/proxy"
)

func TestMain(m *testing.M) { world.Main(m) }

// lines is what a proxy writes.
type lines struct{ background.Output }

// have returns what fails until a text has been written.
func (l *lines) have(text string) func() error {
	return func() error {
		if !strings.Contains(l.String(), text) {
			return fmt.Errorf("%q is not there", text)
		}
		return nil
	}
}

// names is the cluster's DNS, which answers one address after the other where it has several.
type names struct {
	mu    sync.Mutex
	known map[string][]string
	asked map[string]int
}

func (n *names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := n.known[host]
	if len(all) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	a := all[min(n.asked[host], len(all)-1)]
	n.asked[host]++
	var out []netip.Addr
	for text := range strings.SplitSeq(a, ",") {
		out = append(out, netip.MustParseAddr(text))
	}
	return out, nil
}

// site is a cluster with a tunnel proxy, which has the rights that the chart gives it, and a
// namespace with a sandbox of Ada's.
type site struct {
	*world.World
	main      *proxy.Main
	config    proxy.Config
	keys      keys.Signing
	names     *names
	logs      *lines
	records   *lines
	authority *trusttest.Authority
	roots     *x509.CertPool
	bundle    []byte // the same
	operator  string
	namespace string
	// end ends the proxy, and waits for it.
	end func()
	// backend is an address of this machine that is not loopback, where servers listen.
	backend netip.Addr
}

// ours returns an address of this machine that is not loopback.
func ours(t *testing.T) netip.Addr {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() && !p.Addr().IsLoopback() && !p.Addr().IsLinkLocalUnicast() {
			return p.Addr()
		}
	}
	t.Fatal("this machine has only loopback addresses, which tunnels do not reach: give it another one, as with `ip link add d type dummy; ip addr add 10.99.0.1/32 dev d`")
	return netip.Addr{}
}

func newSite(t *testing.T, change ...func(*proxy.Settings)) *site {
	t.Helper()
	s := &site{World: world.Shared(t), names: &names{known: map[string][]string{}, asked: map[string]int{}}, logs: &lines{}, records: &lines{}, backend: ours(t)}
	s.operator, s.namespace = s.NewNamespace("operator"), s.NewNamespace("shop")
	s.Accounts(s.operator, "manager", "other")
	s.Accounts(s.namespace, "ada", "bob")
	k, err := keys.Ensure(t.Context(), s.Kube.CoreV1().Secrets(s.operator))
	s.Must(err)
	s.keys = k
	s.serve(t, change)
	return s
}

// rights are those that the chart gives a tunnel proxy.
func (s *site) rights() string {
	user := "tunnel-proxy-" + s.operator
	s.Grant(user, "",
		rbacv1.PolicyRule{APIGroups: []string{crdv1.Group}, Resources: []string{"signadotexternalworkloads", "signadotsandboxes"}, Verbs: []string{"list", "watch"}},
		rbacv1.PolicyRule{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: []string{"list", "watch"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list", "watch"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"list", "watch"}},
		rbacv1.PolicyRule{NonResourceURLs: []string{"/.well-known/openid-configuration", "/openid/v1/jwks"}, Verbs: []string{"get"}}, // every service account has it
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: []string{"get"}},
		rbacv1.PolicyRule{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
		rbacv1.PolicyRule{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}})
	s.Grant(user, s.operator,
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{keys.SecretName}, Verbs: []string{"get"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{controlkeys.ConfigMap}, Verbs: []string{"get"}},
		rbacv1.PolicyRule{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: []string{"list", "watch"}})
	s.Grant(user, "default", rbacv1.PolicyRule{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: []string{"list", "watch"}})
	return user
}

func (s *site) serve(t *testing.T, change []func(*proxy.Settings)) {
	settings, err := proxy.ParseSettings([]string{"-namespace", s.operator, "-manager", s.operator + "/manager",
		"-socks5-address", "0.0.0.0:0", "-ssh-address", "0.0.0.0:0", "-xap-address", "127.0.0.1:0", "-control-address", "127.0.0.1:0", "-metrics-address", "127.0.0.1:0",
		"-tls-dir", t.TempDir(), "-journal-dir", t.TempDir(), "-drain", "300ms", "-operator-version", "v9"}, func(name string) string { return map[string]string{"POD_NAME": "proxy-0"}[name] }, io.Discard)
	s.Must(err)
	settings.SidecarPorts = []uint16{15006}
	settings.AllowAPIServer = true // it is at the address of this machine, where the test's servers are
	for _, c := range change {
		c(&settings)
	}
	if s.authority == nil {
		s.authority = trusttest.New(t, "authority")
	}
	s.authority.Write(t, settings.TLSDir, s.authority.Leaf(t, proxy.Name))
	s.roots = x509.NewCertPool()
	s.bundle = s.authority.Bundle()
	s.roots.AppendCertsFromPEM(s.bundle)
	access := s.As(s.rights())
	access.QPS = -1
	s.config, err = settings.Open(t.Context(), access, s.records, slog.New(slog.NewTextHandler(s.logs, &slog.HandlerOptions{Level: slog.LevelDebug})))
	s.Must(err)
	s.config.Resolver, s.config.WorkloadHost = s.names, "127.0.0.1"
	s.main, err = proxy.New(s.config)
	s.Must(err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.main.Run(ctx) }()
	s.end = sync.OnceFunc(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the proxy ended with %v", err)
		}
		s.config.Audit.Close()
	})
	t.Cleanup(func() {
		s.end()
		if t.Failed() {
			t.Logf("the proxy logged:\n%s", s.logs)
		}
	})
	s.Eventually("the proxy is ready", func() error { return s.probe("/readyz") })
}

func (s *site) probe(path string) error {
	text, err := s.fetch(path)
	if err == nil && !strings.HasPrefix(text, "ok") {
		err = errors.New(text)
	}
	return err
}

func (s *site) fetch(path string) (string, error) {
	conn, err := net.Dial("tcp", s.main.Addresses()["metrics"])
	if err != nil {
		return "", err
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET %s HTTP/1.0\r\n\r\n", path)
	text, err := io.ReadAll(conn)
	_, body, _ := strings.Cut(string(text), "\r\n\r\n")
	return body, err
}

// sandbox makes a sandbox with an external workload, as the operator would, and lets a service
// account of the site's namespace update it.
func (s *site) sandbox(name, account string, ports ...int32) *crdv1.SignadotExternalWorkload {
	s.Helper()
	name = s.namespace + "-" + name
	sandbox := &crdv1.SignadotSandbox{ObjectMeta: metav1.ObjectMeta{Name: name}}
	sandbox.Spec.ID = strings.ReplaceAll(name, "-", "")[:8] + name[len(name)-4:]
	s.Create(sandbox)
	w := &crdv1.SignadotExternalWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(sandbox, crdv1.GroupVersion().WithKind(crdv1.KindSandbox))}}}
	w.Spec = crdv1.SignadotExternalWorkloadSpec{Name: "local", Tunnel: &crdv1.TunnelSpec{}}
	for _, p := range ports {
		w.Spec.Tunnel.BaselineToLocals = append(w.Spec.Tunnel.BaselineToLocals, crdv1.TunnelPort{BaselinePort: p, LocalAddress: fmt.Sprintf("localhost:%d", p+1)})
	}
	s.Create(w)
	if account != "" {
		s.Grant(s.user(account), "", rbacv1.PolicyRule{APIGroups: []string{crdv1.Group}, Resources: []string{"signadotsandboxes"}, ResourceNames: []string{name}, Verbs: []string{"update"}})
	}
	s.Eventually("the proxy knows "+name, func() error {
		if _, found := s.config.Cluster.Workload(w.Namespace, w.Name); !found {
			return errors.New("it does not")
		}
		return nil
	})
	return w
}

func (s *site) user(account string) string {
	return "system:serviceaccount:" + s.namespace + ":" + account
}

// lists lets a service account list sandboxes, and so use the proxies.
func (s *site) lists(account string) {
	s.Helper()
	s.Grant(s.user(account), "", rbacv1.PolicyRule{APIGroups: []string{crdv1.Group}, Resources: []string{"signadotsandboxes"}, Verbs: []string{"list"}})
	s.Eventually("the right counts", func() error {
		user, refused := s.config.Access.Identify(s.Context(), s.token(account), "127.0.0.1:1")
		if refused == nil {
			refused = s.config.Access.MayUse(s.Context(), user)
		}
		if refused != nil {
			return errors.New(refused.Message)
		}
		return nil
	})
}

func (s *site) token(account string) string { return s.Token(s.namespace, account, "", nil) }

// dial connects to the port of our own protocol.
func (s *site) dial() net.Conn {
	s.Helper()
	conn, err := s.reach()
	s.Must(err)
	return conn
}

func (s *site) reach() (net.Conn, error) {
	return tls.Dial("tcp", s.main.Addresses()["carrier"], carrier.Secure(&tls.Config{RootCAs: s.roots, ServerName: proxy.Name}))
}

// workstation is one end of a session.
type workstation struct {
	*site
	*carrier.Session
	mu    sync.Mutex
	told  *tunnelv1.Declared
	left  *tunnelv1.Leave
	count uint64
}

// hello connects a workstation with a session that begins now.
func (s *site) hello(token, session string, epoch uint64) (*workstation, error) {
	s.Helper()
	return s.helloAfter(0, token, session, epoch)
}

// helloAfter connects a workstation with a session that began earlier.
func (s *site) helloAfter(age time.Duration, token, session string, epoch uint64) (*workstation, error) {
	s.Helper()
	c, welcome, err := carrier.Connect(s.Context(), s.dial(), &tunnelv1.Hello{Version: carrier.Version, Token: token, Session: session, Epoch: epoch,
		Labels: map[string]string{"host": "laptop"}, Age: durationpb.New(age)})
	if err != nil {
		return nil, err
	}
	if welcome.Proxy != "proxy-0" || welcome.OperatorVersion != "v9" || !welcome.Renews || !strings.HasPrefix(welcome.User, "system:serviceaccount:") && !strings.HasPrefix(welcome.User, crdv1.ControlPlanePrefix) {
		s.Errorf("the workstation is welcomed with %v", welcome)
	}
	w := &workstation{site: s, Session: c}
	s.Cleanup(func() { c.Close(nil) })
	go func() {
		for {
			m, err := c.Receive(context.Background())
			if err != nil {
				return
			}
			w.mu.Lock()
			if d := m.GetDeclared(); d != nil {
				w.told = d
			} else {
				w.left = m.GetLeave()
			}
			w.mu.Unlock()
		}
	}()
	go w.answer()
	return w, nil
}

func (s *site) connect(account, session string, epoch uint64) *workstation {
	s.Helper()
	w, err := s.hello(s.token(account), session, epoch)
	s.Must(err)
	return w
}

// answer accepts connections, sends its name, and echoes.
func (w *workstation) answer() {
	for {
		in, err := w.Accept(context.Background())
		if err != nil {
			return
		}
		go func() {
			to := in.Open.GetInbound()
			conn, err := in.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			fmt.Fprintf(conn, "%s:%d from %s\n", to.GetName(), to.GetBaselinePort(), to.GetFrom())
			_, _ = io.Copy(conn, conn)
		}()
	}
}

// opens declares an external workload until its tunnel is open.
func (w *workstation) opens(x *crdv1.SignadotExternalWorkload) {
	w.Helper()
	w.Eventually("the tunnel is open", func() error {
		if all := w.declare(x); !all[0].Open {
			return fmt.Errorf("%v", all)
		}
		return nil
	})
}

// declare declares tunnels, and returns their states.
func (w *workstation) declare(of ...*crdv1.SignadotExternalWorkload) []*tunnelv1.TunnelState {
	w.Helper()
	return w.declares(false, of)
}

// takes declares tunnels that it takes from other users.
func (w *workstation) takes(of ...*crdv1.SignadotExternalWorkload) []*tunnelv1.TunnelState {
	w.Helper()
	return w.declares(true, of)
}

func (w *workstation) declares(take bool, of []*crdv1.SignadotExternalWorkload) []*tunnelv1.TunnelState {
	w.Helper()
	w.count++
	d := &tunnelv1.Declare{Revision: w.count}
	for _, x := range of {
		d.Tunnels = append(d.Tunnels, &tunnelv1.TunnelWanted{Namespace: x.Namespace, Name: x.Name, Take: take})
	}
	w.Must(w.Send(&tunnelv1.Control{Is: &tunnelv1.Control_Declare{Declare: d}}))
	var out []*tunnelv1.TunnelState
	w.Eventually("the declaration is answered", func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.told.GetRevision() != w.count {
			return errors.New("it is not")
		}
		out = w.told.Tunnels
		return nil
	})
	return out
}

// until waits until the declared states are as wanted.
func (w *workstation) until(what string, holds func([]*tunnelv1.TunnelState) bool) {
	w.Helper()
	w.Eventually(what, func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !holds(w.told.GetTunnels()) {
			return fmt.Errorf("it received %v", w.told)
		}
		return nil
	})
}

// to opens a connection into the cluster.
func (w *workstation) to(host string, port uint16) (net.Conn, *tunnelv1.Refused) {
	w.Helper()
	conn, err := w.Open(w.Context(), &tunnelv1.Open{To: &tunnelv1.Open_Address{Address: &tunnelv1.Address{Host: host, Port: uint32(port)}}})
	var refused *carrier.RefusedError
	if errors.As(err, &refused) {
		return nil, refused.Refused
	}
	w.Must(err)
	return conn, nil
}

// server is a server in the cluster, which sends a line and echoes. It counts its connections.
type server struct {
	port uint16
	mu   sync.Mutex
	came int
}

func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.came
}

func (s *site) listen(at string) *server {
	s.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(at, "0"))
	s.Must(err)
	s.Cleanup(func() { _ = l.Close() })
	out := &server{port: uint16(l.Addr().(*net.TCPAddr).Port)}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			out.mu.Lock()
			out.came++
			out.mu.Unlock()
			go func() {
				defer c.Close()
				fmt.Fprintln(c, "in the cluster")
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return out
}

// talk sends a line, closes its sending side, and returns the whole answer.
func talk(t testing.TB, conn net.Conn) string {
	t.Helper()
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(world.Patience))
	if _, err := io.WriteString(conn, "a line\n"); err != nil {
		t.Fatal(err)
	}
	if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(conn)
	if err != nil {
		t.Fatalf("after %q: %v", text, err)
	}
	return string(text)
}

// recorded returns the audit: first records, and last ones.
func (s *site) recorded() (first, last []audit.Record) {
	s.Helper()
	for l := bufio.NewScanner(strings.NewReader(s.records.String())); l.Scan(); {
		var r struct {
			Message string `json:"msg"`
			audit.Record
		}
		s.Must(json.Unmarshal(l.Bytes(), &r))
		switch r.Message {
		case audit.MessageBegan:
			first = append(first, r.Record)
		case audit.MessageEnded:
			last = append(last, r.Record)
		}
	}
	return first, last
}
