package proxy_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tests/world"
	"switchyard.dev/tunnels/access"
	"switchyard.dev/tunnels/audit"
	"switchyard.dev/tunnels/carrier"
	"switchyard.dev/tunnels/proxy"
)

// manager follows the tunnels of a proxy, as the controller manager does.
type manager struct {
	*site
	stream grpc.BidiStreamingClient[tunnelv1.TunnelsRequest, tunnelv1.TunnelsResponse]
}

func (s *site) follow(ctx context.Context, token string) (*manager, error) {
	conn, err := grpc.NewClient("passthrough:///"+s.main.Addresses()["control"],
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: s.roots, ServerName: "tunnel-proxy.signadot.svc"})), grpc.WithNoProxy())
	s.Must(err)
	s.Cleanup(func() { _ = conn.Close() })
	stream, err := tunnelv1.NewProxyControlClient(conn).Tunnels(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token))
	if err != nil {
		return nil, err
	}
	_, err = stream.Recv()
	return &manager{s, stream}, err
}

func (s *site) manage() *manager {
	s.Helper()
	m, err := s.follow(s.Context(), s.Token(s.operator, "manager", access.Audience, nil))
	s.Must(err)
	return m
}

// tunnel waits until a tunnel is as wanted, nil for none, and returns it.
func (m *manager) tunnel(of *crdv1.SignadotExternalWorkload, holds func(*tunnelv1.Tunnel) bool) *tunnelv1.Tunnel {
	m.Helper()
	for deadline := time.Now().Add(world.Patience); ; {
		r, err := m.stream.Recv()
		m.Must(err)
		var found *tunnelv1.Tunnel
		for _, t := range r.Tunnels {
			if t.Namespace == of.Namespace && t.Name == of.Name {
				found = t
			}
		}
		if holds(found) {
			return found
		}
		if time.Now().After(deadline) {
			m.Fatalf("the manager received %v", found)
		}
	}
}

func connected(t *tunnelv1.Tunnel) bool { return t.GetConnected() }

// place returns where a port of a tunnel is.
func place(t testing.TB, of *tunnelv1.Tunnel, baseline int32) string {
	t.Helper()
	for _, p := range of.Ports {
		if p.Baseline == baseline {
			return fmt.Sprintf("127.0.0.1:%d", p.Proxy)
		}
	}
	t.Fatalf("the tunnel has no port for %d: %v", baseline, of)
	return ""
}

// reach connects to a port of a tunnel.
func reach(t testing.TB, of *tunnelv1.Tunnel, baseline int32) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", place(t, of, baseline))
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// refusedAtOnce connects to a port without a workstation. The reset may arrive before the
// connection is established.
func refusedAtOnce(t testing.TB, place string) {
	t.Helper()
	conn, err := net.Dial("tcp", place)
	if errors.Is(err, syscall.ECONNRESET) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(world.Patience))
	if text, err := io.ReadAll(conn); err == nil || errors.Is(err, os.ErrDeadlineExceeded) || len(text) > 0 {
		t.Errorf("without a workstation %q is read, and then %v", text, err)
	}
}

func TestRequestsReachTheWorkstation(t *testing.T) {
	s := newSite(t)
	x := s.sandbox("one", "ada", 8080, 9090)
	m := s.manage()
	w := s.connect("ada", "session", 1)
	states := w.declare(x)
	if len(states) != 1 || !states[0].Open || len(states[0].Ports) != 2 || states[0].Ports[0].LocalAddress != "localhost:8081" {
		t.Fatalf("it received %v", states)
	}
	tunnel := m.tunnel(x, connected)
	if tunnel.User != s.user("ada") || tunnel.Session != "session" || tunnel.Epoch != 1 || tunnel.Uid != string(x.UID) || len(tunnel.Ports) != 2 ||
		tunnel.Labels["host"] != "laptop" || time.Since(tunnel.Heard.AsTime()) > time.Minute || time.Since(tunnel.Since.AsTime()) > time.Minute {
		t.Errorf("the manager received %v", tunnel)
	}
	conn := reach(t, tunnel, 9090)
	if text := talk(t, conn); text != fmt.Sprintf("%s:9090 from %s\na line\n", x.Name, conn.LocalAddr()) {
		t.Errorf("the workstation answers %q", text)
	}
	s.Eventually("the connection is recorded", func() error {
		first, last := s.recorded()
		if len(first) != 1 || len(last) != 1 {
			return fmt.Errorf("%d first records, %d last ones", len(first), len(last))
		}
		r := last[0]
		if r.ID != first[0].ID || r.Direction != audit.Inbound || r.Via != "carrier" || r.User != s.user("ada") || r.Session != "session" || r.Sandbox != x.Name ||
			r.Workload != x.Namespace+"/"+x.Name || r.From != conn.LocalAddr().String() || r.To != x.Namespace+"/"+x.Name+":9090" || r.Proxy != "proxy-0" ||
			r.End.How != audit.Closed || r.End.Sent != 7 || r.End.Received != int64(len(x.Name)+len(":9090 from \na line\n")+len(conn.LocalAddr().String())) {
			t.Errorf("it is recorded as %+v, %+v", r.Connection, r.End)
		}
		return nil
	})
	if text, err := s.fetch("/metrics"); err != nil || !strings.Contains(text, `signadot_operator_tunnel_proxy_connections_total{direction="inbound"} 1`) ||
		!strings.Contains(text, `signadot_operator_tunnel_proxy_active_connections{direction="inbound"} 0`) {
		t.Errorf("%v, metrics:\n%s", err, text)
	}

	t.Run("ports come and go with the sandbox", func(t *testing.T) {
		s, m, w := s.in(t), m, w
		world.Edit(s.World, x, func(x *crdv1.SignadotExternalWorkload) {
			x.Spec.Tunnel.BaselineToLocals = append(x.Spec.Tunnel.BaselineToLocals[1:], crdv1.TunnelPort{BaselinePort: 7000, LocalAddress: "localhost:7"})
		})
		w.until("the workstation is notified", func(all []*tunnelv1.TunnelState) bool {
			return len(all) == 1 && len(all[0].Ports) == 2 && all[0].Ports[1].Baseline == 7000
		})
		tunnel := m.tunnel(x, func(t *tunnelv1.Tunnel) bool { return len(t.GetPorts()) == 2 && t.Ports[0].Baseline == 7000 })
		if text := talk(t, reach(t, tunnel, 7000)); !strings.HasPrefix(text, x.Name+":7000 ") {
			t.Errorf("the workstation answers %q", text)
		}
	})
	t.Run("the workstation is disconnected", func(t *testing.T) {
		w.Close(nil)
		tunnel := m.tunnel(x, func(t *tunnelv1.Tunnel) bool { return t != nil && !t.Connected })
		refusedAtOnce(t, place(t, tunnel, 7000))
		again := s.connect("ada", "session", 2)
		again.declare(x)
		back := m.tunnel(x, connected)
		if back.Ports[0].Proxy != tunnel.Ports[0].Proxy || back.Epoch != 2 || !back.Since.AsTime().Equal(tunnel.Since.AsTime()) {
			t.Errorf("after it came back: %v, before: %v", back, tunnel)
		}
		if text := talk(t, reach(t, back, 7000)); !strings.HasPrefix(text, x.Name+":7000 ") {
			t.Errorf("the workstation answers %q", text)
		}
		again.declare()
		m.tunnel(x, func(t *tunnelv1.Tunnel) bool { return t == nil })
		again.declare(x)
		m.tunnel(x, connected)
		s.Remove(x)
		again.until("the workstation is notified", func(all []*tunnelv1.TunnelState) bool {
			return len(all) == 1 && all[0].Refused.GetReason() == tunnelv1.Reason_REASON_NOT_FOUND
		})
		m.tunnel(x, func(t *tunnelv1.Tunnel) bool { return t == nil })
	})
}

// in returns the same site for a part of the test.
func (s *site) in(t *testing.T) *site {
	part := *s
	part.World = s.World.In(t)
	return &part
}

func TestRightsToHoldATunnel(t *testing.T) {
	s := newSite(t)
	hers, his, both := s.sandbox("hers", "ada", 80), s.sandbox("his", "bob", 80), s.sandbox("both", "ada", 80)
	s.Grant(s.user("bob"), "", crdRule("update", both.Name))
	nobodys := s.sandbox("none", "ada", 80)
	world.Edit(s.World, nobodys, func(x *crdv1.SignadotExternalWorkload) { x.OwnerReferences = nil })
	m := s.manage()

	token := s.token("ada")
	for what, c := range map[string]struct {
		token string
		want  tunnelv1.Reason
	}{
		"a forged token":     {token[:len(token)-6] + "AAAAAA", tunnelv1.Reason_REASON_UNAUTHENTICATED},
		"a token for others": {s.Token(s.namespace, "ada", "vault", nil), tunnelv1.Reason_REASON_UNAUTHENTICATED},
		"no token":           {"", tunnelv1.Reason_REASON_UNAUTHENTICATED},
		"an invalid token":   {"junk", tunnelv1.Reason_REASON_UNAUTHENTICATED},
	} {
		_, err := s.hello(c.token, "forger", 1)
		var refused *carrier.RefusedError
		if !errors.As(err, &refused) || refused.Refused.Reason != c.want {
			t.Errorf("%s: %v", what, err)
		}
	}
	if strings.Contains(s.logs.String(), token[20:]) {
		t.Error("a token stands in the log")
	}

	ada := s.connect("ada", "session", 5)
	s.Eventually("her rights count", func() error {
		if all := ada.declare(hers, both); !all[0].Open || !all[1].Open {
			return fmt.Errorf("%v", all)
		}
		return nil
	})
	states := ada.declare(hers, his, nobodys, &crdv1.SignadotExternalWorkload{})
	for i, want := range []tunnelv1.Reason{0, tunnelv1.Reason_REASON_FORBIDDEN, tunnelv1.Reason_REASON_FORBIDDEN, tunnelv1.Reason_REASON_NOT_FOUND} {
		if states[i].Refused.GetReason() != want || states[i].Open != (want == 0) || (want != 0 && states[i].Refused.Message == "") {
			t.Errorf("tunnel %d: %v", i, states[i])
		}
	}
	ada.declare(hers, both)

	// An epoch that is not greater is refused, and one that is ends the connection before.
	for _, epoch := range []uint64{4, 5} {
		_, err := s.hello(token, "session", epoch)
		if refused := (*carrier.RefusedError)(nil); !errors.As(err, &refused) || refused.Refused.Reason != tunnelv1.Reason_REASON_TAKEN {
			t.Errorf("epoch %d after 5: %v", epoch, err)
		}
	}
	bob := s.connect("bob", "session", 1) // another's session of the same name is another one
	newer := s.connect("ada", "session", 6)
	<-ada.Done()
	if left := (*carrier.LeftError)(nil); !errors.As(ada.Err(), &left) || left.Leave.Why.Reason != tunnelv1.Reason_REASON_TAKEN || left.Leave.ComeBack {
		t.Errorf("the older connection ended with %v", ada.Err())
	}
	if newer.Err() != nil || bob.Err() != nil {
		t.Errorf("the newer one ended with %v, Bob's with %v", newer.Err(), bob.Err())
	}

	// Ada's live tunnel stays hers until Bob takes it; then she is notified once.
	newer.declare(hers, both)
	s.Eventually("his right counts", func() error {
		if all := bob.declare(both); all[0].Refused.GetReason() != tunnelv1.Reason_REASON_TAKEN || !strings.Contains(all[0].Holder, s.user("ada")+" at laptop") {
			return fmt.Errorf("%v", all)
		}
		return nil
	})
	m.tunnel(both, func(t *tunnelv1.Tunnel) bool { return t.GetUser() == s.user("ada") })
	if all := bob.takes(both); !all[0].Open {
		t.Fatalf("Bob takes it: %v", all)
	}
	newer.until("Ada is notified", func(all []*tunnelv1.TunnelState) bool {
		return all[0].Open && all[1].Refused.GetReason() == tunnelv1.Reason_REASON_TAKEN && strings.Contains(all[1].Refused.Message, s.user("bob"))
	})
	if all := newer.declare(both, hers); all[0].Open {
		t.Errorf("a repeated declaration takes a tunnel back: %v", all)
	}
	m.tunnel(both, func(t *tunnelv1.Tunnel) bool { return t.GetUser() == s.user("bob") })
	newer.declare(hers)
	if all := newer.declare(hers, both); all[1].Open {
		t.Errorf("Ada has it again while Bob holds it: %v", all)
	}
	bob.declare()
	newer.until("Ada has it once Bob has given it up", func(all []*tunnelv1.TunnelState) bool { return len(all) == 2 && all[1].Open })

	// The manager knows that another proxy has it.
	s.Must(m.stream.Send(&tunnelv1.TunnelsRequest{Taken: []*tunnelv1.Taken{{Namespace: both.Namespace, Name: both.Name, Session: "session", Epoch: 6, By: "carol"}, {Namespace: hers.Namespace, Name: hers.Name, Session: "session", Epoch: 5},
		{Namespace: hers.Namespace, Name: hers.Name, Session: "another", Epoch: 9}}}))
	newer.until("Ada is notified", func(all []*tunnelv1.TunnelState) bool {
		return len(all) == 2 && all[0].Open && strings.Contains(all[1].Refused.GetMessage(), "carol")
	})
	m.tunnel(both, func(t *tunnelv1.Tunnel) bool { return t == nil })
}

func TestOnlyTheManagerAsksForTunnels(t *testing.T) {
	s := newSite(t)
	for what, c := range map[string]struct {
		token string
		want  codes.Code
	}{
		"another account":             {s.Token(s.operator, "other", access.Audience, nil), codes.PermissionDenied},
		"a user":                      {s.Token(s.namespace, "ada", access.Audience, nil), codes.PermissionDenied},
		"a token for the API server":  {s.Token(s.operator, "manager", "", nil), codes.Unauthenticated},
		"nothing that would be known": {"junk", codes.Unauthenticated},
	} {
		if _, err := s.follow(t.Context(), c.token); status.Code(err) != c.want {
			t.Errorf("%s: %v", what, err)
		}
	}
	s.manage()
}

func TestConnectionsIntoTheCluster(t *testing.T) {
	s := newSite(t)
	back, local := s.listen(s.backend.String()), s.listen("127.0.0.1")
	s.names.known = map[string][]string{
		"cart.shop": {s.backend.String()}, "loop.shop": {"127.0.0.1"}, "meta.shop": {"169.254.169.254"}, "mapped.shop": {"::ffff:127.0.0.1"},
		"two.shop": {"127.0.0.1," + s.backend.String()},
		// The second query of a name has another answer.
		"rebinds.shop": {s.backend.String(), "127.0.0.1"}, "rebinds2.shop": {"127.0.0.1", s.backend.String()},
	}
	w := s.connect("ada", "session", 1)
	if _, refused := w.to("cart.shop", back.port); refused.GetReason() != tunnelv1.Reason_REASON_FORBIDDEN {
		t.Errorf("a user without rights reaches the cluster: %v", refused)
	}
	s.lists("ada")
	s.Eventually("the right counts", func() error {
		conn, refused := w.to("cart.shop", back.port)
		if refused != nil {
			return errors.New(refused.Message)
		}
		if text := talk(t, conn); text != "in the cluster\na line\n" {
			t.Errorf("the server answers %q", text)
		}
		return nil
	})
	came := back.count()
	for host, want := range map[string]tunnelv1.Reason{
		"loop.shop": tunnelv1.Reason_REASON_DESTINATION, "meta.shop": tunnelv1.Reason_REASON_DESTINATION, "mapped.shop": tunnelv1.Reason_REASON_DESTINATION,
		"rebinds2.shop": tunnelv1.Reason_REASON_DESTINATION,
		"127.0.0.1":     tunnelv1.Reason_REASON_DESTINATION, "::ffff:127.0.0.1": tunnelv1.Reason_REASON_DESTINATION, "[::1]": tunnelv1.Reason_REASON_DESTINATION,
		"::ffff:7f00:1": tunnelv1.Reason_REASON_DESTINATION, "64:ff9b::7f00:1": tunnelv1.Reason_REASON_DESTINATION, "169.254.169.254": tunnelv1.Reason_REASON_DESTINATION,
		"fd00:ec2::254": tunnelv1.Reason_REASON_DESTINATION, "0.0.0.0": tunnelv1.Reason_REASON_DESTINATION, "::": tunnelv1.Reason_REASON_DESTINATION,
		"nothing.shop": tunnelv1.Reason_REASON_NOT_FOUND, "2130706433": tunnelv1.Reason_REASON_INVALID, "0x7f000001": tunnelv1.Reason_REASON_NOT_FOUND, "127.1": tunnelv1.Reason_REASON_INVALID,
		"": tunnelv1.Reason_REASON_INVALID, "a name": tunnelv1.Reason_REASON_INVALID, "x\r\ny": tunnelv1.Reason_REASON_INVALID,
	} {
		if _, refused := w.to(host, local.port); refused.GetReason() != want || refused.GetMessage() == "" {
			t.Errorf("%q: %v, want %v", host, refused, want)
		}
	}
	if _, refused := w.to(s.backend.String(), 15006); refused.GetReason() != tunnelv1.Reason_REASON_DESTINATION {
		t.Errorf("a port of sidecars: %v", refused)
	}
	if _, refused := w.to(s.backend.String(), 1); refused.GetReason() != tunnelv1.Reason_REASON_UNREACHABLE {
		t.Errorf("a closed port: %v", refused)
	}
	for _, host := range []string{"two.shop", "rebinds.shop"} {
		conn, refused := w.to(host, back.port)
		if refused != nil {
			t.Errorf("%s: %v", host, refused)
			continue
		}
		_ = talk(t, conn)
	}
	if n := back.count(); n != came+2 || local.count() != 0 {
		t.Errorf("%d came to the server, and %d to one that cannot be reached", n-came, local.count())
	}
	// As many as the server saw, and no more, are recorded.
	s.Eventually("all are recorded", func() error {
		first, last := s.recorded()
		if len(first) != back.count() || len(last) != back.count() {
			return fmt.Errorf("%d first records and %d last ones of %d connections", len(first), len(last), back.count())
		}
		for _, r := range last {
			if r.Direction != audit.Outbound || r.User != s.user("ada") || r.To != fmt.Sprintf("%s:%d", s.backend, back.port) || r.End.Sent != 7 || r.End.Received != 22 || !strings.Contains(r.Asked, ".shop:") {
				t.Errorf("it is recorded as %+v, %+v", r.Connection, r.End)
			}
		}
		return nil
	})

	// A cut is an error at both ends.
	conn, refused := w.to("cart.shop", back.port)
	if refused != nil {
		t.Fatal(refused)
	}
	if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	s.end()
	if text, err := io.ReadAll(conn); err == nil {
		t.Errorf("a connection that was cut ended well, after %q", text)
	}
	if first, last := s.recorded(); len(first) != len(last) || last[len(last)-1].End.How == audit.Closed {
		t.Errorf("%d first records, %d last ones, of which the last is %+v", len(first), len(last), last[len(last)-1].End)
	}
}

func TestTunnelsDoNotReachTheOperator(t *testing.T) {
	s := newSite(t, func(settings *proxy.Settings) { settings.AllowAPIServer = false })
	s.lists("ada")
	w := s.connect("ada", "session", 1)
	api, err := s.Kube.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	s.Must(err)
	var slices discoveryv1.EndpointSliceList
	s.List(&slices, client.InNamespace("default"), client.MatchingLabels{discoveryv1.LabelServiceName: "kubernetes"})
	s.names.known = map[string][]string{"api.shop": {api.Spec.ClusterIP}, "pod.shop": {slices.Items[0].Endpoints[0].Addresses[0]}, "bus.shop": {"10.9.9.9"}}
	bus := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.operator, Name: "eventbus"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 4222}}}}
	s.Create(bus, &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: s.operator, Name: "eventbus-1", Labels: map[string]string{discoveryv1.LabelServiceName: "eventbus"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.9.9.9"}}}})
	s.names.known["bus2.shop"] = []string{bus.Spec.ClusterIP}
	refused := func(host, says string) error {
		if _, refused := w.to(host, 4222); refused.GetReason() != tunnelv1.Reason_REASON_DESTINATION || !strings.Contains(refused.Message, says) {
			return fmt.Errorf("%v", refused)
		}
		return nil
	}
	// New objects of the cluster are noticed a moment later.
	s.Eventually("the bus is known", func() error {
		return errors.Join(refused("bus.shop", "event bus"), refused("bus2.shop", "event bus"))
	})
	before, _ := s.recorded()
	for host, says := range map[string]string{"api.shop": "API server", "pod.shop": "API server", api.Spec.ClusterIP: "API server",
		"::ffff:" + api.Spec.ClusterIP: "API server", "bus.shop": "event bus", "bus2.shop": "event bus"} {
		if err := refused(host, says); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	if first, _ := s.recorded(); len(first) != len(before) {
		t.Errorf("some were opened: %+v", first[len(before):])
	}
}

func TestADrainingProxyReportsItAndMovesTunnels(t *testing.T) {
	s := newSite(t)
	x := s.sandbox("one", "ada", 80)
	w, m := s.connect("ada", "session", 1), s.manage()
	w.opens(x)
	conn := reach(t, m.tunnel(x, connected), 80)
	lines := bufio.NewReader(conn)
	if _, err := lines.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); s.end() }()
	for {
		r, err := m.stream.Recv()
		if err != nil {
			t.Fatalf("the manager is not notified: %v", err)
		}
		if r.Draining {
			break
		}
	}
	// A connection that is there has a moment.
	if _, err := io.WriteString(conn, "the last words\n"); err != nil {
		t.Fatal(err)
	}
	if text, err := lines.ReadString('\n'); err != nil || text != "the last words\n" {
		t.Errorf("%q, %v", text, err)
	}
	<-w.Done()
	if left := (*carrier.LeftError)(nil); !errors.As(w.Err(), &left) || left.Leave.Why.Reason != tunnelv1.Reason_REASON_DRAINING || !left.Leave.ComeBack {
		t.Errorf("the session ended with %v", w.Err())
	}
	if text, err := io.ReadAll(lines); err == nil {
		_, last := s.recorded()
		t.Errorf("a connection that was cut ended well, after %q; it is recorded as %+v", text, last[0].End)
	}
	<-ended
	if first, last := s.recorded(); len(first) != 1 || len(last) != 1 || last[0].End.Sent != 15 {
		t.Errorf("it is recorded as %+v, %+v", first, last)
	}
}
