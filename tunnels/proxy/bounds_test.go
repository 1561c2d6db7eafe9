package proxy_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tests/world"
	"switchyard.dev/tunnels/access"
	"switchyard.dev/tunnels/carrier"
	"switchyard.dev/tunnels/identity"
	"switchyard.dev/tunnels/proxy"
)

// A user has at most so many sessions, and again as many once they have ended; others have theirs
// at the same time.
func TestAUserHasSoManySessions(t *testing.T) {
	s := newSite(t)
	const most = 64
	token := s.token("ada")
	var all []*workstation
	for i := range most {
		w, err := s.hello(token, fmt.Sprint("session-", i), 1)
		s.Must(err)
		all = append(all, w)
	}
	_, err := s.hello(token, "one more", 1)
	if refused := (*carrier.RefusedError)(nil); !errors.As(err, &refused) || refused.Refused.Reason != tunnelv1.Reason_REASON_EXHAUSTED {
		t.Errorf("the 65th: %v", err)
	}
	s.connect("bob", "session", 1)
	for _, w := range all {
		w.Close(nil)
	}
	for i := range most + 1 {
		s.Eventually("there is room again", func() error {
			w, err := s.hello(token, fmt.Sprint("again-", i), 1)
			if err == nil {
				w.Close(nil)
			}
			return err
		})
	}
}

// The same over SSH, for which certificates count and not tokens.
func TestAUserHasSoManySSHClients(t *testing.T) {
	s := newSite(t)
	const most = 64
	of := func(account string) func() (*ssh.Client, error) {
		_, certified := s.sshKey(identity.User{Name: s.user(account), Groups: []string{"system:authenticated"}}, time.Now())
		return func() (*ssh.Client, error) { return s.ssh(ssh.PublicKeys(certified)) }
	}
	// A client with a connection that is closed right after the handshake may not know it yet.
	lives := func(dial func() (*ssh.Client, error)) (*ssh.Client, error) {
		c, err := dial()
		if err == nil {
			if _, _, err = c.SendRequest("nonsense", true, nil); err != nil {
				_ = c.Close()
			}
		}
		return c, err
	}
	ada := of("ada")
	var all []*ssh.Client
	for len(all) < most {
		s.Eventually("another is let in", func() error { // so many a second from one address
			c, err := lives(ada)
			if err == nil {
				all = append(all, c)
			}
			return err
		})
	}
	s.Eventually("the 65th is refused as such", func() error {
		if c, err := lives(ada); err == nil {
			_ = c.Close()
			t.Fatal("there is a 65th")
		}
		return s.logs.have(`64 sessions of one caller are under way`)()
	})
	s.Eventually("another user is admitted", func() error {
		c, err := lives(of("bob"))
		if err == nil {
			err = c.Close()
		}
		return err
	})
	for _, c := range all {
		_ = c.Close()
	}
	s.Eventually("there is room again", func() error {
		c, err := lives(ada)
		if err == nil {
			err = c.Close()
		}
		return err
	})
}

// A connection over SSH brings requests of so many ports; one that is given up leaves the others.
func TestSSHForwardsAreBounded(t *testing.T) {
	s := newSite(t)
	var ports []int32
	for p := range int32(64) {
		ports = append(ports, 8000+p)
	}
	x, y := s.sandbox("many", "ada", ports...), s.sandbox("more", "ada", 80)
	c := s.client("ada")
	s.Eventually("her right counts", func() error {
		if !s.forwards(c, "tcpip-forward", y, 80) {
			return errors.New("it does not")
		}
		return nil
	})
	for _, p := range ports[1:] {
		if !s.forwards(c, "tcpip-forward", x, uint32(p)) {
			t.Fatalf("port %d is not forwarded", p)
		}
	}
	if s.forwards(c, "tcpip-forward", x, uint32(ports[0])) {
		t.Error("there is a 65th forward")
	}
	if !s.forwards(c, "cancel-tcpip-forward", x, uint32(ports[1])) {
		t.Error("a forward is not released")
	}
	// A manager that connects now receives the present state.
	if tunnel := s.manage().tunnel(x, func(*tunnelv1.Tunnel) bool { return true }); !connected(tunnel) || len(tunnel.Ports) == 0 {
		t.Errorf("with one port all are given up: %v", tunnel)
	}
	if !s.forwards(c, "tcpip-forward", x, uint32(ports[0])) {
		t.Error("there is no room after one was given up")
	}
}

// An external workload without a sandbox cannot be served, whatever sandboxes a user may update;
// one that loses its sandbox is given up.
func TestAWorkloadWithoutASandboxIsNotServed(t *testing.T) {
	s := newSite(t)
	x := s.sandbox("one", "ada", 80)
	s.Grant(s.user("ada"), "", crdRule("update"))
	w, c, m := s.connect("ada", "session", 1), s.client("ada"), s.manage()
	s.Eventually("her right counts", func() error {
		if all := w.declare(x); !all[0].Open {
			return fmt.Errorf("%v", all)
		}
		return nil
	})
	w.declare()
	s.Eventually("it is forwarded over SSH", func() error {
		if !s.forwards(c, "tcpip-forward", x, 80) {
			return errors.New("it is not")
		}
		return nil
	})
	m.tunnel(x, func(t *tunnelv1.Tunnel) bool { return connected(t) && strings.HasPrefix(t.Session, "ssh-") })
	world.Edit(s.World, x, func(x *crdv1.SignadotExternalWorkload) { x.OwnerReferences = nil })
	m.tunnel(x, func(t *tunnelv1.Tunnel) bool { return t == nil })
	if s.forwards(c, "tcpip-forward", x, 80) {
		t.Error("over SSH she has what belongs to no sandbox")
	}
	if all := w.declare(x); all[0].Open || all[0].Refused.GetReason() != tunnelv1.Reason_REASON_FORBIDDEN || !strings.Contains(all[0].Refused.Message, "belongs to no sandbox") {
		t.Errorf("she received %v", all)
	}
}

// The configured namespaces and ranges limit the destinations of tunnels, and the proxy's own
// ports are refused.
func TestSettingsLimitDestinations(t *testing.T) {
	ranges := filepath.Join(t.TempDir(), "cidr.yaml")
	if err := os.WriteFile(ranges, fmt.Appendf(nil, "version: 1\noutboundIPs:\n- {cidr: 10.9.9.0/24}\n- {name: here, cidr: %s/32, exclude: true}\n", ours(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*proxy.Settings)
		says   string
	}{
		"namespaces":      {func(settings *proxy.Settings) { settings.Namespaces = []string{"shop"} }, "only certain namespaces"},
		"excluded ranges": {func(settings *proxy.Settings) { settings.CIDRs = ranges }, "excludes"},
	} {
		s := newSite(t, c.change)
		s.lists("ada")
		if _, refused := s.connect("ada", "session", 1).to(s.backend.String(), 80); refused.GetReason() != tunnelv1.Reason_REASON_DESTINATION || !strings.Contains(refused.GetMessage(), c.says) {
			t.Errorf("%s: %v", name, refused)
		}
	}
}

// The Services of the bus and of the proxies are known as they come and change, by their addresses
// and those behind them.
func TestTunnelsDoNotReachLaterObjects(t *testing.T) {
	s := newSite(t)
	s.lists("ada")
	w := s.connect("ada", "session", 1)
	if _, refused := w.to(s.backend.String(), 1); refused.GetReason() != tunnelv1.Reason_REASON_UNREACHABLE {
		t.Fatalf("before: %v", refused)
	}
	refusedAs := func(host string, port uint16, says string) {
		t.Helper()
		s.Eventually(host+" is refused as "+says, func() error {
			if _, refused := w.to(host, port); refused.GetReason() != tunnelv1.Reason_REASON_DESTINATION || !strings.Contains(refused.Message, says) {
				return fmt.Errorf("%v", refused)
			}
			return nil
		})
	}
	metrics := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.operator, Name: "eventbus-metrics"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 9090}}}}
	s.Create(metrics)
	refusedAs(metrics.Spec.ClusterIP, 9090, "event bus")
	s.Create(&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: s.operator, Name: "eventbus-1", Labels: map[string]string{discoveryv1.LabelServiceName: "eventbus"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{s.backend.String()}}}})
	refusedAs(s.backend.String(), 1, "event bus")
}

// The token of a manager counts over TLS alone.
func TestTheControlPortIsNotPlain(t *testing.T) {
	s := newSite(t)
	conn, err := grpc.NewClient("passthrough:///"+s.main.Addresses()["control"], grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	s.Must(err)
	defer conn.Close()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+s.Token(s.operator, "manager", access.Audience, nil))
	stream, err := tunnelv1.NewProxyControlClient(conn).Tunnels(ctx)
	if err == nil {
		_, err = stream.Recv()
	}
	if err == nil {
		t.Error("a manager is answered without TLS")
	}
}

// Clients with invalid SOCKS5 requests give their places back.
func TestSOCKS5GivesPlacesBack(t *testing.T) {
	s := newSite(t, openLoopback)
	for range 1100 {
		conn, err := net.Dial("tcp", s.at("127.0.0.1", "socks5"))
		s.Must(err)
		_, _ = io.WriteString(conn, "\x04\x01")
		_ = conn.SetDeadline(time.Now().Add(world.Patience))
		_, _ = io.ReadAll(conn)
		_ = conn.Close()
	}
	conn, err := net.Dial("tcp", s.at("127.0.0.1", "socks5"))
	s.Must(err)
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(world.Patience))
	_, _ = io.WriteString(conn, "\x05\x01\x00")
	answer := make([]byte, 2)
	if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != "\x05\x00" {
		t.Errorf("after them one is answered %q, %v", answer, err)
	}
}
