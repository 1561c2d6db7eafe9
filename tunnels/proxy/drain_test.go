package proxy_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tests/world"
	"switchyard.dev/tunnels/proxy"
	station "switchyard.dev/tunnels/workstation"
	"switchyard.dev/tunnels/workstation/reconnect"
)

// another returns the same cluster with a further proxy.
func (s *site) another(t *testing.T, pod string, change ...func(*proxy.Settings)) *site {
	t.Helper()
	o := *s
	o.logs, o.records = &lines{}, &lines{}
	o.serve(t, append(change, func(s *proxy.Settings) { s.Config.Pod = pod }))
	return &o
}

// ready is a Road to the first proxy that is ready, as a port-forward is.
type ready []*site

// Dial implements workstation.Road.
func (r ready) Dial(ctx context.Context) (net.Conn, error) {
	for _, s := range r {
		if s.probe("/readyz") == nil {
			return station.Address(s.main.Addresses()["carrier"]).Dial(ctx)
		}
	}
	return nil, errors.New("no proxy is ready")
}

// echoed sends a line and wants it back.
func echoed(t *testing.T, what string, conn io.Writer, from *bufio.Reader) {
	t.Helper()
	if _, err := io.WriteString(conn, "a line\n"); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if text, err := from.ReadString('\n'); err != nil || text != "a line\n" {
		t.Fatalf("%s: %q, %v", what, text, err)
	}
}

// greeted returns what reads from a connection, after the line with which a server begins.
func greeted(t *testing.T, conn net.Conn) *bufio.Reader {
	t.Helper()
	_ = conn.SetDeadline(time.Now().Add(world.Patience))
	from := bufio.NewReader(conn)
	if _, err := from.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return from
}

// A draining proxy makes its workstation connect to another one at once, and serves open
// connections and clients with a stale address until nothing needs it.
func TestADrainingProxyHandsItsTunnelsOver(t *testing.T) {
	long := func(s *proxy.Settings) { s.Config.Moment = time.Minute }
	a := newSite(t, long)
	b := a.another(t, "proxy-1")
	x := a.sandbox("hand", "ada", 8080)
	a.lists("ada")
	b.lists("ada")
	back := a.listen(a.backend.String())
	a.names.known = map[string][]string{"cart.shop": {a.backend.String()}}
	local := a.listen("127.0.0.1")
	cfg := a.workstationConfig("ada")
	cfg.Road = ready{a, b}
	w := a.run(t, cfg)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go w.Follow(ctx, asks{{Tunnel: reconnect.Tunnel{Namespace: x.Namespace, Name: x.Name}, Locals: map[int32]string{8080: fmt.Sprintf("127.0.0.1:%d", local.port)}, Connected: true}})
	atA, atB := a.manage(), b.manage()
	before := atA.tunnel(x, connected)
	in := reach(t, before, 8080)
	fromIn := greeted(t, in)
	out, err := w.Open(ctx, "cart.shop", back.port)
	a.Must(err)
	fromOut := greeted(t, out)

	ended := make(chan struct{})
	go func() { defer close(ended); a.end() }()
	after := atB.tunnel(x, connected)
	select {
	case <-ended:
		t.Fatal("the first proxy ended before the other one had the tunnel")
	default:
	}
	if after.Session != before.Session || after.Epoch <= before.Epoch {
		t.Errorf("first %v had it, and then %v", before, after)
	}
	// Clients of either proxy reach the workstation, also after the manager has reported the new
	// one.
	if text := talk(t, reach(t, after, 8080)); text != "in the cluster\na line\n" {
		t.Errorf("through the other proxy: %q", text)
	}
	for range 2 {
		if text := talk(t, reach(t, before, 8080)); text != "in the cluster\na line\n" {
			t.Errorf("through the first proxy: %q", text)
		}
		a.Must(atA.stream.Send(&tunnelv1.TunnelsRequest{Taken: []*tunnelv1.Taken{{Namespace: x.Namespace, Name: x.Name, Session: before.Session, Epoch: before.Epoch, By: "ada", SameSession: true}}}))
		a.Eventually("the first proxy knows that", a.logs.have("a tunnel has moved to another proxy"))
	}
	echoed(t, "the connection from the cluster, in flight", in, fromIn)
	echoed(t, "the connection into the cluster, in flight", out, fromOut)
	further, err := w.Open(ctx, "cart.shop", back.port)
	a.Must(err)
	if text := talk(t, further); text != "in the cluster\na line\n" {
		t.Errorf("a further connection into the cluster: %q", text)
	}
	if first, _ := b.recorded(); len(first) != 2 {
		t.Errorf("the other proxy has recorded %+v", first)
	}
	if status, _ := w.Status(); status.Proxy != "proxy-1" || len(status.Workloads) != 1 || !status.Workloads[0].Open {
		t.Errorf("the workstation reports %+v", status)
	}
	_ = in.Close()
	_ = out.Close()
	select {
	case <-ended: // long before its moment has passed
	case <-time.After(world.Patience):
		t.Error("the first proxy goes on although nothing needs it")
	}
	if text := talk(t, reach(t, after, 8080)); text != "in the cluster\na line\n" {
		t.Errorf("once the first proxy has ended: %q", text)
	}
}

// A user that takes a tunnel over gets it at once, also from a draining proxy.
func TestADrainingProxyReleasesATakenTunnel(t *testing.T) {
	s := newSite(t, func(s *proxy.Settings) { s.Config.Moment = 5 * time.Second })
	x := s.sandbox("other", "ada", 8080)
	w, m := s.connect("ada", "session", 1), s.manage()
	w.opens(x)
	before := m.tunnel(x, connected)
	ended := make(chan struct{})
	go func() { defer close(ended); s.end() }()
	select {
	case leave := <-w.Leaving():
		if leave.GetLinger().AsDuration() != 5*time.Second || !leave.GetComeBack() || leave.GetWhy().GetReason() != tunnelv1.Reason_REASON_DRAINING {
			t.Errorf("the workstation received %v", leave)
		}
	case <-time.After(world.Patience):
		t.Fatal("the workstation is not notified")
	}
	if s.probe("/readyz") == nil {
		t.Error("a proxy that ends is ready")
	}
	s.Must(m.stream.Send(&tunnelv1.TunnelsRequest{Taken: []*tunnelv1.Taken{{Namespace: x.Namespace, Name: x.Name, Session: before.Session, Epoch: before.Epoch, By: "bob"}}}))
	m.tunnel(x, func(found *tunnelv1.Tunnel) bool { return found == nil })
	if conn, err := net.Dial("tcp", place(t, before, 8080)); err == nil {
		_ = conn.Close()
		t.Error("the tunnel is forwarded to the session that lost it")
	}
	<-ended
}

func TestATunnelWithoutAWorkstationIsRemovedWithItsSandbox(t *testing.T) {
	s := newSite(t)
	x := s.sandbox("one", "ada", 8080)
	m := s.manage()
	w := s.connect("ada", "session", 1)
	w.declare(x)
	m.tunnel(x, connected)
	w.Close(nil)
	m.tunnel(x, func(t *tunnelv1.Tunnel) bool { return t != nil && !t.Connected })
	s.Remove(x)
	m.tunnel(x, func(t *tunnelv1.Tunnel) bool { return t == nil })
}
