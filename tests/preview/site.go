// Package preview has a control plane with previews for tests: a real control plane, a real agent at a real API server,
// and Services on this machine behind it. It has no operator: a test itself reports that sandboxes are ready.
package preview

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/controlplane-link/agent"
	"switchyard.dev/controlplane-link/certificates"
	"switchyard.dev/controlplane-link/controlplane"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/eventbus/trust/trusttest"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/link/deliveries"
	"switchyard.dev/tests/world"
	"switchyard.dev/tunnels/cluster"
)

// The organisation of a Site, its cluster, its preview domain, and the host of the page of the control plane.
const (
	Organisation = deliveries.Organisation
	Cluster      = "prod"
	Domain       = "preview.example.net"
	Page         = "control.example.com"
)

// Ada is an administrator, and Key is her API key.
var (
	Ada = model.Principal{Kind: model.KindUser, ID: "u-ada", Name: "ada@example.com"}
	Key = "s3cret-ada-" + strings.Repeat("a", 41)
)

// Site is a control plane with previews, and a cluster.
type Site struct {
	*world.World
	Main *controlplane.Main
	// Namespace is that of its Services.
	Namespace string
	// Roots are the authorities of all certificates, and Dir has the files of the control plane.
	Roots *x509.CertPool
	Dir   string
	// Logs are those of the control plane and the agent. At the end no secret may be in it ("s3cret").
	Logs *background.Output
	// Stop ends the agent.
	Stop func()

	names    *names
	settings func(*agent.Settings)
	events   int
	end      func()
}

// Options change a Site. Fields that are nil change nothing.
type Options struct {
	ControlPlane func(*controlplane.Config)
	Agent        func(*agent.Settings)
}

// New returns a Site in the cluster that the tests of the package share (world.Main), with a session of the agent.
func New(t testing.TB, o Options) *Site {
	t.Helper()
	s := &Site{World: world.Shared(t), Dir: t.TempDir(), Logs: &background.Output{}, names: &names{known: map[string]netip.Addr{}}, settings: o.Agent}
	t.Cleanup(func() {
		if text := s.Logs.String(); strings.Contains(text, "s3cret") {
			t.Errorf("the log has a secret:\n%s", text)
		} else if t.Failed() {
			t.Log(text)
		}
	})
	s.Must(deliveries.Prepare(t.Context(), s.Server))
	s.Namespace = s.NewNamespace("shop")
	s.start(o.ControlPlane)
	s.Must(deliveries.Fill(t.Context(), s.Main.Store(), Cluster))
	s.Must(s.Main.Store().PutUser(t.Context(), model.User{Org: Organisation, ID: Ada.ID, Email: Ada.Name, Role: model.RoleAdmin}, s.Event()))
	s.AddKey("k-ada", Ada, Key)
	s.StartAgent()
	t.Cleanup(s.end) // before the agent, which else waits for its connections
	return s
}

func (s *Site) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(s.Logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// start starts the control plane.
func (s *Site) start(change func(*controlplane.Config)) {
	s.Helper()
	authority := trusttest.New(s, "acme")
	authority.Write(s, s.Dir, authority.Leaf(s, "127.0.0.1", Page))
	previews := filepath.Join(s.Dir, "previews")
	s.Must(os.Mkdir(previews, 0o700))
	authority.Write(s, previews, authority.Leaf(s, "*."+Domain))
	s.Roots = x509.NewCertPool()
	s.Roots.AppendCertsFromPEM(authority.Bundle())
	c, err := deliveries.Whole(s.Dir, s.logger())
	s.Must(err)
	c.URL, c.Link.Linger = "https://"+Page, time.Second
	c.Previews = controlplane.Previews{Address: "127.0.0.1:0", Domains: map[string]string{Organisation: Domain}, Certificates: certificates.Config{Dir: previews}}
	if change != nil {
		change(&c)
	}
	if t, is := s.TB.(interface{ Setenv(key, value string) }); is {
		t.Setenv("CONTROLPLANE_SOCKET", filepath.Join(s.Dir, "admin.sock"))
	}
	s.Main, err = controlplane.New(s.Context(), c)
	s.Must(err)
	s.end = background.Run(s, s.Main.Run)
}

// StartAgent starts the agent, and waits for its session.
func (s *Site) StartAgent() {
	s.Helper()
	s.Stop = background.Run(s, deliveries.Agent{
		Access: s.Config, Dir: s.Dir, Address: s.Address("agents"), Token: deliveries.Token(Cluster), Log: s.Logs,
		Change: func(a *agent.Settings) {
			a.Resolver = s.names
			// The API server has the address of this machine, where the Services are.
			a.Refused = slices.DeleteFunc(a.Refused, func(r cluster.Refused) bool { return r.Name == "kubernetes" })
			if s.settings != nil {
				s.settings(a)
			}
		},
	}.Run)
	s.Eventually("the session of the agent", func() error {
		if len(s.Main.Link().Agents()) == 0 {
			return errors.New("there is none")
		}
		return nil
	})
}

// Address returns the address of a listener of the control plane.
func (s *Site) Address(listener string) string { return s.Main.Listeners[listener].Addr().String() }

// Event returns an entry of the audit trail for a write of the test.
func (s *Site) Event() model.Event {
	s.events++
	return model.Event{Org: Organisation, ID: fmt.Sprintf("test-%d", s.events), Type: "test", By: model.Principal{Kind: model.KindSystem, ID: "test"}, Method: model.MethodInternal}
}

// AddKey creates an API key.
func (s *Site) AddKey(id string, owner model.Principal, secret string) {
	s.Helper()
	s.Must(s.Main.Store().CreateAPIKey(s.Context(), model.APIKey{Org: Organisation, ID: id, Owner: owner, Masked: secret[:6], Digest: model.DigestOf(secret)}, s.Event()))
}

// names is the DNS of the cluster.
type names struct {
	sync.Mutex
	known map[string]netip.Addr
}

// LookupNetIP implements outbound.Resolver.
func (n *names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	n.Lock()
	defer n.Unlock()
	a, is := n.known[host]
	if !is {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return []netip.Addr{a}, nil
}

// Listen listens at an address of this machine that is not loopback, until the end of the test.
func (s *Site) Listen() net.Listener {
	s.Helper()
	all, err := net.InterfaceAddrs()
	s.Must(err)
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() && p.Addr().IsGlobalUnicast() {
			l, err := net.Listen("tcp", netip.AddrPortFrom(p.Addr(), 0).String())
			s.Must(err)
			s.Cleanup(func() { _ = l.Close() }) // a server may have closed it
			return l
		}
	}
	s.Fatal("this machine needs an address that is not loopback")
	return nil
}

// Service creates a Service of the cluster with the endpoint of a listener, and returns its host and port as in a
// target: NAME.NAMESPACE.svc:PORT.
func (s *Site) Service(name string, l net.Listener) string {
	s.Helper()
	at := l.Addr().(*net.TCPAddr).AddrPort()
	s.Create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}, Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Port: int32(at.Port())}}}})
	s.Create(&discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: s.Namespace, Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{at.Addr().String()}}},
	})
	host := name + "." + s.Namespace + ".svc"
	s.Resolve(host, at.Addr())
	return fmt.Sprintf("%s:%d", host, at.Port())
}

// Resolve sets the address of a name of the cluster.
func (s *Site) Resolve(host string, a netip.Addr) {
	s.names.Lock()
	defer s.names.Unlock()
	s.names.known[host] = a
}

// Client returns a client that connects to the control plane at the names of its certificates, and does not follow
// redirects. It has HTTP/2 unless one is set.
func (s *Site) Client(one bool) *http.Client {
	t := &http.Transport{DialContext: s.Dial, TLSClientConfig: &tls.Config{RootCAs: s.Roots}, ForceAttemptHTTP2: !one, DisableCompression: true}
	s.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// Dial connects to the control plane, at the name of its page or of a preview.
func (s *Site) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	to := "previews"
	if host == Page {
		to = "api"
	}
	return (&net.Dialer{}).DialContext(ctx, network, s.Address(to))
}

// Call sends a request of Ada to the API, and returns its answer.
func (s *Site) Call(method, path string, body any) (status int, answer string) {
	s.Helper()
	text, err := json.Marshal(body)
	s.Must(err)
	r, err := http.NewRequestWithContext(s.Context(), method, "https://"+Page+"/api/v2/orgs/"+Organisation+"/"+path, strings.NewReader(string(text)))
	s.Must(err)
	r.Header.Set("Signadot-Api-Key", Key)
	a, err := s.Client(true).Do(r)
	s.Must(err)
	defer a.Body.Close()
	all, err := io.ReadAll(a.Body)
	s.Must(err)
	return a.StatusCode, string(all)
}

// Endpoints is a specification with endpoints of the default route group, by name.
func Endpoints(targets map[string]string) map[string]any {
	var all []map[string]string
	for name, target := range targets {
		all = append(all, map[string]string{"name": name, "target": target})
	}
	return map[string]any{"cluster": Cluster, "defaultRouteGroup": map[string]any{"endpoints": all}}
}

// Apply writes a sandbox through the API, and returns it once it is in the cluster. It is not ready.
func (s *Site) Apply(name string, spec map[string]any) model.Sandbox {
	s.Helper()
	if status, answer := s.Call(http.MethodPut, "sandboxes/"+name, map[string]any{"spec": spec}); status != http.StatusOK {
		s.Fatalf("PUT of sandbox %s: %d %s", name, status, answer)
	}
	var box model.Sandbox
	s.Eventually("sandbox "+name+" in the cluster", func() (err error) {
		if box, err = s.Main.Store().Sandbox(s.Context(), Organisation, name); err == nil && box.Status.Applied != box.Generation {
			err = fmt.Errorf("its status is %+v", box.Status)
		}
		return err
	})
	return box
}

// Ready has the operator report whether a sandbox is ready, and waits until the control plane knows.
func (s *Site) Ready(name string, is bool, message string) {
	s.Helper()
	status := crdv1.StatusCondition{Type: crdv1.ConditionReady, Status: map[bool]string{true: "True", false: "False"}[is], Reason: "Test", Message: message}
	s.Eventually("the status can be written", func() error {
		o := &crdv1.SignadotSandbox{}
		if err := s.World.Client.Get(s.Context(), client.ObjectKey{Name: name}, o); err != nil {
			return err
		}
		status.ObservedGeneration = o.Generation
		o.Status.Conditions = []crdv1.StatusCondition{status}
		return s.World.Client.Status().Update(s.Context(), o)
	})
	s.Eventually("the status of sandbox "+name, func() error {
		box, err := s.Main.Store().Sandbox(s.Context(), Organisation, name)
		if err == nil && (box.Status.Ready != is || box.Status.Message != message) {
			err = fmt.Errorf("it is %+v", box.Status)
		}
		return err
	})
}

// Sandbox applies a sandbox with endpoints, by name, that is ready.
func (s *Site) Sandbox(name string, targets map[string]string) model.Sandbox {
	s.Helper()
	box := s.Apply(name, Endpoints(targets))
	s.Ready(name, true, "all is ready")
	return box
}

// URL returns the origin of a preview.
func URL(endpoint, owner string) string { return "https://" + endpoint + "--" + owner + "." + Domain }
