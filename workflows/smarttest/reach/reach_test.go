package reach_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"

	"switchyard.dev/workflows/smarttest/reach"
)

func TestAddressesOfHostsAreRefused(t *testing.T) {
	own := func(a netip.Addr) bool {
		return a == netip.MustParseAddr("10.1.2.3") || a == netip.MustParseAddr("fd12::3")
	}
	for text, want := range map[string]string{
		"10.96.0.1": "", "192.168.1.1": "", "172.16.0.1": "", "100.64.0.1": "", "8.8.8.8": "", "fd12::4": "", "2001:db8::1": "", "2600::1": "",
		"127.0.0.1": "loopback", "127.255.255.254": "loopback", "::1": "loopback", "::ffff:127.0.0.1": "loopback",
		"169.254.169.254": "link-local", "169.254.0.1": "link-local", "fe80::1": "link-local", "fe80::1%eth0": "link-local", "::ffff:169.254.169.254": "link-local",
		"64:ff9b::169.254.169.254": "link-local", "64:ff9b::a9fe:a9fe": "link-local", "2002:a9fe:a9fe::1": "link-local", "::169.254.169.254": "link-local",
		"64:ff9b:1::a9fe:a9fe": "link-local", "64:ff9b::10.96.0.1": "", "2002:0808:0808::1": "",
		"fd00:ec2::254": "metadata", "100.100.100.200": "metadata", "168.63.129.16": "metadata",
		"0.0.0.0": "this host", "0.1.2.3": "this host", "::": "this host", "10.1.2.3": "this host", "::ffff:10.1.2.3": "this host", "fd12::3": "this host", "64:ff9b::10.1.2.3": "this host",
		"224.0.0.1": "one host", "255.255.255.255": "one host", "ff02::1": "one host",
	} {
		if got := reach.Check(netip.MustParseAddr(text), own); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// names is a name server; each name has the answers of one request after the other, of which the last one stays.
type names struct {
	answers map[string][][]string
	asked   atomic.Int64
}

// ServeDNS implements dns.Handler.
func (n *names) ServeDNS(out dns.ResponseWriter, m *dns.Msg) {
	answer := new(dns.Msg)
	answer.SetReply(m)
	all := n.answers[strings.TrimSuffix(m.Question[0].Name, ".")]
	if m.Question[0].Qtype == dns.TypeA && len(all) > 0 {
		turn := min(int(n.asked.Add(1)), len(all)) - 1
		for _, a := range all[turn] {
			answer.Answer = append(answer.Answer, &dns.A{Hdr: dns.RR_Header{Name: m.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET}, A: net.ParseIP(a)})
		}
	}
	_ = out.WriteMsg(answer)
}

// resolver returns a resolver that asks only the name server.
func resolver(t *testing.T, n *names) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &dns.Server{PacketConn: conn, Handler: n}
	go func() { _ = s.ActivateAndServe() }()
	t.Cleanup(func() { _ = s.Shutdown() })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func TestTheAddressOfANameIsCheckedWhenConnecting(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // of the test
	at := netip.MustParseAddrPort(l.Addr().String())
	_, port, _ := net.SplitHostPort(l.Addr().String())
	n := &names{answers: map[string][][]string{
		"metadata.test.invalid": {{"169.254.169.254"}},
		"one-of.test.invalid":   {{"127.0.0.1", "169.254.169.254"}},
		"rebinds.test.invalid":  {{"127.0.0.1"}, {"169.254.169.254"}},
		"other.test.invalid":    {{"127.0.0.9"}},
	}}
	d := &reach.Dialer{Resolver: resolver(t, n), Allowed: []netip.AddrPort{at}}
	for _, host := range []string{"metadata.test.invalid", "one-of.test.invalid", "other.test.invalid"} {
		n.asked.Store(0)
		var refused *reach.Refused
		if conn, err := d.DialContext(t.Context(), "tcp", host+":"+port); !errors.As(err, &refused) || conn != nil || refused.Host != host {
			t.Errorf("%s: %v", host, err)
		}
	}
	n.asked.Store(0)
	conn, err := d.DialContext(t.Context(), "tcp", "rebinds.test.invalid:"+port)
	if err != nil || conn.RemoteAddr().String() != l.Addr().String() {
		t.Fatalf("first answer: %v", err)
	}
	_ = conn.Close()
	if asked := n.asked.Load(); asked != 1 {
		t.Errorf("%d requests for one connection: the address of another answer than the checked one could be used", asked)
	}
	var refused *reach.Refused
	if _, err := d.DialContext(t.Context(), "tcp", "rebinds.test.invalid:"+port); !errors.As(err, &refused) {
		t.Errorf("second answer: %v", err)
	}
}

func TestConnectionsGoThroughTheProxyToTheCheckedAddress(t *testing.T) {
	for answer, want := range map[string]string{
		"HTTP/1.1 200 Connection established\r\n\r\n":                       "",
		"HTTP/1.1 503 Service Unavailable\r\n\r\n":                          "503 Service Unavailable",
		"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 20<<10) + "\r\n\r\n": "unexpected EOF",
		"nonsense\r\n\r\n": "malformed",
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan string, 1)
		go func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			b := make([]byte, 4096)
			k, _ := conn.Read(b)
			got <- string(b[:k])
			_, _ = conn.Write([]byte(answer))
			k, _ = conn.Read(b)
			got <- string(b[:k])
		}()
		n := &names{answers: map[string][][]string{"shop.test.invalid": {{"10.96.0.7"}}}}
		d := &reach.Dialer{Proxy: l.Addr().String(), Resolver: resolver(t, n)}
		conn, err := d.DialContext(t.Context(), "tcp", "shop.test.invalid:8080")
		if request := <-got; !strings.HasPrefix(request, "CONNECT 10.96.0.7:8080 HTTP/1.1\r\nHost: 10.96.0.7:8080\r\n") {
			t.Errorf("the proxy got %q", request)
		}
		switch {
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%.40q: %v, want %s", answer, err, want)
		case want == "" && err != nil:
			t.Error(err)
		case want == "":
			_, _ = conn.Write([]byte("first bytes"))
			if first := <-got; first != "first bytes" {
				t.Errorf("then the proxy got %q", first)
			}
			_ = conn.Close()
		}
		var refused *reach.Refused
		if _, err := d.DialContext(t.Context(), "tcp", l.Addr().String()); !errors.As(err, &refused) {
			t.Errorf("the proxy itself: %v", err)
		}
		_ = l.Close()
	}
}
