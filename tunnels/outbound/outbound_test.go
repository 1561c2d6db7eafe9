package outbound

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/eventbus/callers"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tests/background"
	"switchyard.dev/tools/wait"
	"switchyard.dev/tunnels/audit"
	"switchyard.dev/tunnels/policy"
)

// around is a cluster in which everything may be reached but loopback, and that counts.
type around struct {
	active atomic.Int64
	asked  []netip.Addr
}

// Rules implements Knows.
func (*around) Rules() policy.Config { return policy.Config{} }

// Namespace implements Knows.
func (*around) Namespace(netip.Addr, string) string { return "" }

// Service implements Knows.
func (*around) Service(host string) bool { return strings.HasSuffix(host, ".shop") }

// Kind implements outbound.Knows.
func (*around) Kind(netip.Addr) policy.Kind { return policy.KindUnknown }

// Begun implements Counts.
func (a *around) Begun(audit.Direction) func() {
	a.active.Add(1)
	return func() { a.active.Add(-1) }
}

// LookupNetIP implements Resolver.
func (a *around) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return a.asked, nil
}

// gate is a Gate with room for two connections of a user, and for as many as most in the audit.
type gate struct {
	*Gate
	around  around
	records background.Output
	audit   *audit.Log
	// host and port are those of an echo server; ended counts its connections that ended.
	host  string
	port  uint32
	ended atomic.Int64
}

// recorded returns all records.
func (g *gate) recorded(t *testing.T) (all []audit.Record) {
	t.Helper()
	for _, line := range g.records.Lines("") {
		var r audit.Record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

func newGate(t *testing.T, most int) *gate {
	t.Helper()
	g := &gate{}
	var err error
	if g.audit, err = audit.Open(audit.Config{Dir: t.TempDir(), Out: &g.records, Most: most}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.audit.Close)
	if g.Gate, err = New(Config{Cluster: &g.around, Audit: g.audit, Counts: &g.around, Resolver: &g.around}); err != nil {
		t.Fatal(err)
	}
	g.pool = callers.NewPool("connections", callers.Bounds{Each: 2, Strangers: 100, Pods: 100})
	g.serve(t)
	return g
}

// serve listens at an address of this machine that is not loopback.
func (g *gate) serve(t *testing.T) {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() && p.Addr().IsGlobalUnicast() {
			g.host = p.Addr().String()
		}
	}
	l, err := net.Listen("tcp", net.JoinHostPort(g.host, "0"))
	if err != nil || g.host == "" {
		t.Fatalf("this machine needs an address that is not loopback: %v", err)
	}
	t.Cleanup(func() { _ = l.Close() })
	g.port = uint32(l.Addr().(*net.TCPAddr).Port)
	go background.Accept(l, func(c net.Conn) {
		_, _ = io.Copy(c, c)
		_ = c.Close()
		g.ended.Add(1)
	})
}

var ada = Who{Via: "carrier", User: "ada", Session: "s", From: "192.0.2.1:4"}

// opens opens a connection, or fails.
func (g *gate) opens(t *testing.T, who Who) *Conn {
	t.Helper()
	c, refused := g.Open(t.Context(), who, g.host, g.port)
	if refused != nil {
		t.Fatalf("%s is refused: %v", who.User, refused)
	}
	return c
}

func (g *gate) refuses(t *testing.T, who Who, host string, want tunnelv1.Reason) {
	t.Helper()
	if _, refused := g.Open(t.Context(), who, host, g.port); refused.GetReason() != want {
		t.Fatalf("%v, not %s", refused, want)
	}
}

// A user that has the maximum of connections gets no more, others do, and the user does again
// once one has ended. Refused connections do not count.
func TestAPlaceIsTakenWhileAConnectionLasts(t *testing.T) {
	g := newGate(t, 100)
	for range 5 {
		g.refuses(t, ada, "127.0.0.1", tunnelv1.Reason_REASON_DESTINATION)
	}
	one, two := g.opens(t, ada), g.opens(t, ada)
	g.refuses(t, ada, g.host, tunnelv1.Reason_REASON_EXHAUSTED)
	bob := g.opens(t, Who{Via: "ssh", User: "bob", From: ada.From})
	nobody := g.opens(t, Who{Via: "socks5", From: ada.From})
	if n := g.around.active.Load(); n != 4 {
		t.Errorf("%d connections are counted, not 4", n)
	}
	near, far := net.Pipe()
	go one.Join(whole{far})
	_ = near.Close()
	two.Abandon(errors.New("the client has closed"))
	bob.Abandon(nil)
	nobody.Abandon(nil)
	wait.Eventually(t, time.Minute, "all have ended", func() error {
		if n := g.around.active.Load(); n != 0 || g.ended.Load() != 4 {
			return errors.New("they have not")
		}
		return nil
	})
	for range 2 {
		defer g.opens(t, ada).Abandon(nil)
	}
}

// whole is a Stream that is closed as a whole.
type whole struct{ net.Conn }

func (w whole) CloseWrite() error { return w.Close() }

// The records have the user, the source, the protocol, the session and the destination, at the
// beginning and at the end.
func TestRecordsAreComplete(t *testing.T) {
	g := newGate(t, 100)
	g.around.asked = []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr(g.host)}
	c, refused := g.Open(t.Context(), ada, "cart.shop", g.port)
	if refused != nil {
		t.Fatal(refused)
	}
	c.Abandon(errors.New("the client has closed"))
	wait.Eventually(t, time.Minute, "both records are there", func() error {
		if len(g.recorded(t)) != 2 {
			return errors.New("they are not")
		}
		return nil
	})
	for _, r := range g.recorded(t) {
		if r.Direction != audit.Outbound || r.Via != "carrier" || r.User != "ada" || r.Session != "s" || r.From != ada.From ||
			r.To != c.Address().String() || r.Asked != net.JoinHostPort("cart.shop", portOf(c)) || r.End != nil && r.End.How != "the client has closed" {
			t.Errorf("it is recorded as %+v, %+v", r.Connection, r.End)
		}
	}
}

func portOf(c *Conn) string {
	_, port, _ := net.SplitHostPort(c.Address().String())
	return port
}

// A connection that cannot be recorded is not opened, and does not count.
func TestAConnectionWithoutARecordIsNotOpened(t *testing.T) {
	g := newGate(t, 1)
	first := g.opens(t, ada)
	for range 5 {
		g.refuses(t, Who{Via: "ssh", User: "bob", From: ada.From}, g.host, tunnelv1.Reason_REASON_EXHAUSTED)
	}
	wait.Eventually(t, time.Minute, "the refused connections are closed", func() error {
		if g.ended.Load() != 5 {
			return errors.New("some are")
		}
		return nil
	})
	first.Abandon(nil)
	defer g.opens(t, Who{Via: "ssh", User: "bob", From: ada.From}).Abandon(nil)
	g.audit.Close()
	g.refuses(t, ada, g.host, tunnelv1.Reason_REASON_DRAINING)
}

// No more than a few addresses of a name are tried.
func TestANameWithManyAddresses(t *testing.T) {
	g := newGate(t, 100)
	for range maxAddresses {
		g.around.asked = append(g.around.asked, netip.MustParseAddr("127.0.0.1"))
	}
	g.around.asked = append(g.around.asked, netip.MustParseAddr(g.host))
	g.refuses(t, ada, "many.shop", tunnelv1.Reason_REASON_DESTINATION)
}

// An attempt that opens no connection leaves one record, with the requested host and the reason.
func TestRefusalsAreRecorded(t *testing.T) {
	g := newGate(t, 100)
	g.around.asked = []netip.Addr{netip.MustParseAddr(g.host)}
	if _, refused := g.Open(t.Context(), ada, "secret-data.example.com", 1); refused.GetReason() != tunnelv1.Reason_REASON_UNREACHABLE {
		t.Fatalf("a port without a listener: %v", refused)
	}
	g.refuses(t, ada, "127.0.0.1", tunnelv1.Reason_REASON_DESTINATION)
	wait.Eventually(t, time.Minute, "both are recorded", func() error {
		if n := len(g.recorded(t)); n != 2 {
			return fmt.Errorf("%d records", n)
		}
		return nil
	})
	for i, asked := range []string{"secret-data.example.com:1", net.JoinHostPort("127.0.0.1", fmt.Sprint(g.port))} {
		if r := g.recorded(t)[i]; r.Asked != asked || r.User != "ada" || r.Via != "carrier" || r.From != ada.From || r.End == nil || r.End.How == "" || r.End.Sent != 0 {
			t.Errorf("it is recorded as %+v, %+v", r.Connection, r.End)
		}
	}
}

// Names outside of the cluster are looked up so often for one user, those of Services as often as he
// likes, and others have their own rate.
func TestLookUpsOutsideOfTheClusterAreBounded(t *testing.T) {
	g := newGate(t, 100)
	bounded := false
	for n := range 1000 {
		_, refused := g.Open(t.Context(), ada, fmt.Sprintf("data-%d.example.com", n), 1)
		bounded = bounded || refused.GetReason() == tunnelv1.Reason_REASON_EXHAUSTED
	}
	if !bounded {
		t.Error("1000 names outside of the cluster are looked up at once")
	}
	for range 300 {
		g.refuses(t, ada, "cart.shop", tunnelv1.Reason_REASON_NOT_FOUND)
	}
	g.refuses(t, Who{Via: "ssh", User: "bob", From: ada.From}, "data.example.com", tunnelv1.Reason_REASON_NOT_FOUND)
}

// A name without a namespace would be one of the proxy's own namespace.
func TestShortNamesAreRefused(t *testing.T) {
	g := newGate(t, 100)
	g.around.asked = []netip.Addr{netip.MustParseAddr(g.host)}
	for _, host := range []string{"route", "routeserver", "localhost"} {
		_, refused := g.Open(t.Context(), ada, host, g.port)
		if refused.GetReason() != tunnelv1.Reason_REASON_NOT_FOUND || !strings.Contains(refused.GetMessage(), "write it as "+host+".NAMESPACE") {
			t.Errorf("%s: %v", host, refused)
		}
	}
	if _, refused := g.Open(t.Context(), ada, "route.shop", g.port); refused != nil {
		t.Errorf("a name with a namespace: %v", refused)
	}
}
