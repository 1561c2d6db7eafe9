package names_test

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/miekg/dns"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/workstation/names"
)

func service(namespace, name string, addresses ...string) *tunnelv1.Service {
	short := name + "." + namespace
	return &tunnelv1.Service{Namespace: namespace, Name: name, Addresses: addresses, DnsNames: []string{short, short + ".svc", short + ".svc.cluster.local"}}
}

func table() *names.Table {
	t := names.NewTable("cluster.local")
	t.Change([]*tunnelv1.Service{service("hotrod", "cart", "10.96.0.10", "fd00::a"), service("hotrod", "pods"), service("hotrod", "old", "10.96.0.11")}, nil)
	t.Change(nil, []*tunnelv1.ServiceName{{Namespace: "hotrod", Name: "old"}})
	return t
}

func TestNamesAreClassified(t *testing.T) {
	names := table()
	for name, want := range map[string]struct {
		ours bool
		ask  string
	}{
		"cart.hotrod.":                       {true, "cart.hotrod.svc.cluster.local"},
		"CART.hotrod.SVC.":                   {true, "cart.hotrod.svc.cluster.local"},
		"cart.hotrod.svc.cluster.local.":     {true, "cart.hotrod.svc.cluster.local"},
		"web-0.pods.hotrod.":                 {true, "web-0.pods.hotrod.svc.cluster.local"},
		"web-0.pods.hotrod.svc.":             {true, "web-0.pods.hotrod.svc.cluster.local"},
		"_http._tcp.pods.hotrod.":            {true, "_http._tcp.pods.hotrod.svc.cluster.local"},
		"nothing.hotrod.svc.":                {true, "nothing.hotrod.svc.cluster.local"},
		"1-2-3-4.hotrod.pod.cluster.local.":  {true, "1-2-3-4.hotrod.pod.cluster.local"},
		"www.cart.hotrod.":                   {}, // The public site of that name.
		"old.hotrod.":                        {},
		"cart.":                              {},
		"example.com.":                       {},
		"cart.hotrod.svc.cluster.local.com.": {},
		"notcluster.local.":                  {},
		".":                                  {},
	} {
		if got := names.Judge(name); got.InCluster != want.ours || got.Ask != want.ask {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

// A namespace can have the name of a top-level domain: its Services do not take the names of
// public sites from a workstation.
func TestNoServiceShadowsAPublicName(t *testing.T) {
	all := names.NewTable("cluster.local")
	var services []*tunnelv1.Service
	for _, one := range []struct{ name, namespace string }{
		{"go", "dev"}, {"web", "app"}, {"github", "io"}, {"cart", "shop"}, {"co", "uk"}, {"www", "ck"}, {"x", "ck"}, {"pods", "cloud"}, {"cart", "hotrod"}, {"cart", "prod"}, {"cart", "staging"},
	} {
		services = append(services, service(one.namespace, one.name, "10.96.0.10"))
	}
	services[7].Addresses = nil
	all.Change(services, nil)
	for name, ours := range map[string]bool{
		"go.dev.": false, "GO.DEV.": false, "web.app.": false, "github.io.": false, "cart.shop.": false, "co.uk.": false, "www.ck.": false, "x.ck.": false,
		"pods.cloud.": false, "web-0.pods.cloud.": false, "cart.prod.": false, "cart.hotrod.": true, "cart.staging.": true,
		"go.dev.svc.": true, "go.dev.svc.cluster.local.": true, "web-0.pods.cloud.svc.": true, "x.ck.svc.": true,
	} {
		if got := all.Judge(name); got.InCluster != ours {
			t.Errorf("%s: the cluster's: %t, not %t", name, got.InCluster, ours)
		}
	}
	if got, want := all.Public(), []string{"app", "ck", "cloud", "dev", "io", "prod", "shop", "uk"}; !slices.Equal(got, want) {
		t.Errorf("namespaces with the name of a public domain: %v, not %v", got, want)
	}
	all.Change(nil, []*tunnelv1.ServiceName{{Namespace: "dev", Name: "go"}})
	if slices.Contains(all.Public(), "dev") {
		t.Error("a namespace without Services is still there")
	}
}

// The names of a Service follow from its own name, whatever tunnel-api has beside them.
func TestNoOtherNameIsAServices(t *testing.T) {
	all, one := names.NewTable("cluster.local"), service("hotrod", "cart", "10.96.0.10")
	one.DnsNames = append(one.DnsNames, "github.com", "cart", "other.hotrod")
	all.Change([]*tunnelv1.Service{one}, nil)
	for _, name := range []string{"github.com.", "cart.", "other.hotrod."} {
		if all.Judge(name).InCluster {
			t.Errorf("%s is the cluster's", name)
		}
	}
}

func TestWhichServiceAnswersQueries(t *testing.T) {
	all := table()
	if got := all.DNS(); got != "kube-dns.kube-system.svc.cluster.local" {
		t.Errorf("without one that is known it is %s", got)
	}
	other := service("kube-system", "rke2-coredns", "10.96.0.53")
	other.Ports = []*tunnelv1.ServicePort{{Port: 53, Protocol: "UDP"}, {Port: 53, Protocol: "TCP"}}
	somebodys := service("evil", "a-dns", "10.96.0.54")
	somebodys.Ports = other.Ports
	all.Change([]*tunnelv1.Service{other, somebodys}, nil)
	if got := all.DNS(); got != "rke2-coredns.kube-system.svc.cluster.local" {
		t.Errorf("it is %s", got)
	}
}

// clusterDNS is the far end of a connection to the cluster's DNS, which has one pod, and a name
// that refers to a host outside of the cluster.
func clusterDNS(t *testing.T) func(context.Context, string, uint16) (net.Conn, error) {
	return func(_ context.Context, host string, port uint16) (net.Conn, error) {
		if host != "kube-dns.kube-system.svc.cluster.local" || port != 53 {
			t.Errorf("a connection to %s port %d", host, port)
		}
		here, there := net.Pipe()
		go func() {
			defer there.Close()
			c := &dns.Conn{Conn: there}
			q, err := c.ReadMsg()
			if err != nil {
				return
			}
			answer := new(dns.Msg).SetReply(q)
			name := q.Question[0].Name
			if name == "pods.hotrod.svc.cluster.local." {
				answer.Answer = []dns.RR{
					&dns.CNAME{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeCNAME, Class: dns.ClassINET}, Target: "example.com."},
					&dns.A{Hdr: dns.RR_Header{Name: "example.com.", Rrtype: dns.TypeA, Class: dns.ClassINET}, A: net.ParseIP("10.9.9.9")},
					&dns.A{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeA, Class: dns.ClassINET}, A: net.ParseIP("10.244.1.7")},
				}
			} else {
				answer.Rcode = dns.RcodeNameError
			}
			_ = c.WriteMsg(answer)
		}()
		return here, nil
	}
}

func TestAnswers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(file, []byte("nameserver 127.0.0.1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	system, err := names.NewSystem(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	var learned []netip.Addr
	s, err := names.New(names.Config{Table: table(), System: system, Open: clusterDNS(t), Learned: func(all []netip.Addr) { learned = append(learned, all...) }})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(name string, kind uint16) *dns.Msg {
		t.Helper()
		q := new(dns.Msg).SetQuestion(name, kind)
		got, err := s.Answer(t.Context(), "udp", q)
		if err != nil {
			t.Fatal(err)
		}
		if got.Id != q.Id || len(got.Question) != 1 || got.Question[0] != q.Question[0] {
			t.Errorf("%s: it answers %v", name, got)
		}
		return got
	}
	if got := ask("Cart.hotrod.", dns.TypeA); len(got.Answer) != 1 || got.Answer[0].(*dns.A).A.String() != "10.96.0.10" || got.Answer[0].Header().Name != "Cart.hotrod." {
		t.Errorf("A: %v", got)
	}
	if got := ask("cart.hotrod.", dns.TypeAAAA); len(got.Answer) != 1 || got.Answer[0].(*dns.AAAA).AAAA.String() != "fd00::a" {
		t.Errorf("AAAA: %v", got)
	}
	if got := ask("cart.hotrod.", dns.TypeHTTPS); got.Rcode != dns.RcodeSuccess || len(got.Answer) != 0 || len(got.Ns) != 1 {
		t.Errorf("HTTPS: %v", got)
	}
	if len(learned) != 0 {
		t.Errorf("Learned was called with %v of memory", learned)
	}
	if got := ask("pods.hotrod.", dns.TypeA); len(got.Answer) != 3 || got.Answer[0].Header().Name != "pods.hotrod." || got.Answer[2].Header().Name != "pods.hotrod." {
		t.Errorf("a Service without an address: %v", got)
	}
	if want := []netip.Addr{netip.MustParseAddr("10.244.1.7")}; !slices.Equal(learned, want) { // Not that of a name outside.
		t.Errorf("%v are the cluster's, want %v", learned, want)
	}
	if got := ask("nothing.hotrod.svc.", dns.TypeA); got.Rcode != dns.RcodeNameError {
		t.Errorf("a name that is none: %v", got)
	}
	if s, err = names.New(names.Config{Table: table(), System: system, Open: clusterDNS(t), NoSix: true}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"cart.hotrod.", "pods.hotrod."} {
		if got := ask(name, dns.TypeAAAA); got.Rcode != dns.RcodeSuccess || len(got.Answer) != 0 || len(got.Ns) != 1 {
			t.Errorf("AAAA without IPv6: %v", got)
		}
	}
	if got := ask("cart.hotrod.", dns.TypeA); len(got.Answer) != 1 {
		t.Errorf("A without IPv6: %v", got)
	}
	if got, err := s.Answer(t.Context(), "udp", new(dns.Msg)); err != nil || got.Rcode != dns.RcodeFormatError {
		t.Errorf("no question: %v, %v", got, err)
	}
}
