package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/miekg/dns"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/audit"
	"switchyard.dev/tunnels/carrier"
	"switchyard.dev/tunnels/outbound"
	"switchyard.dev/tunnels/policy"
	"switchyard.dev/tunnels/relay"
)

// clusterOnly is a cluster, and what there is outside of it, on a machine of its own: a tunnel
// proxy's carrier and gate, tunnel-api, DNS of both, and servers that say where they are.
type clusterOnly struct {
	tunnelv1.UnimplementedTunnelAPIServer
	gate *outbound.Gate
}

// farSideAlone runs one, with certificates from a folder, until it is killed.
func farSideAlone(folder string) error {
	log, err := audit.Open(audit.Config{Dir: folder, Out: io.Discard})
	if err != nil {
		return err
	}
	c := &clusterOnly{}
	if c.gate, err = outbound.New(outbound.Config{Cluster: c, Audit: log, Counts: c, Resolver: c}); err != nil {
		return err
	}
	proxy, err := c.listen(folder, "tunnel-proxy", "192.0.2.7:7777")
	if err != nil {
		return err
	}
	api, err := tls.LoadX509KeyPair(filepath.Join(folder, "tunnel-api.crt"), filepath.Join(folder, "tunnel-api.key"))
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "10.96.0.70:9070")
	if err != nil {
		return err
	}
	s := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&api)))
	tunnelv1.RegisterTunnelAPIServer(s, c)
	go func() { _ = s.Serve(l) }()
	for address, says := range map[string]string{
		"10.96.0.10:80": "cart", "[fd00:10:96::10]:80": "cart in six", "10.244.1.7:80": "a pod", "10.245.0.9:80": "in a range", "192.0.2.80:80": "outside",
	} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		go func() {
			_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, says) }))
		}()
	}
	resolver("10.96.0.53:53", "pods.hotrod.svc.cluster.local.", "10.244.1.7")
	resolver("192.0.2.53:53", "outside.test.", "192.0.2.80")
	resolver("192.0.2.54:53", "outside.test.", "192.0.2.80")
	fmt.Println("ready")
	for {
		conn, err := proxy.Accept()
		if err != nil {
			return err
		}
		go c.serve(conn)
	}
}

func (c *clusterOnly) listen(folder, name, address string) (net.Listener, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(folder, name+".crt"), filepath.Join(folder, name+".key"))
	if err != nil {
		return nil, err
	}
	return tls.Listen("tcp", address, &tls.Config{Certificates: []tls.Certificate{pair}})
}

// resolver answers for one name, over UDP and TCP.
func resolver(address, name, leads string) {
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		answer := new(dns.Msg).SetReply(q)
		switch {
		case q.Question[0].Name != name:
			answer.Rcode = dns.RcodeNameError
		case q.Question[0].Qtype == dns.TypeA:
			answer.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 1}, A: net.ParseIP(leads)}}
		}
		_ = w.WriteMsg(answer)
	})
	for _, network := range []string{"udp", "tcp"} {
		go func() { fmt.Fprintln(os.Stderr, dns.ListenAndServe(address, network, handler)) }()
	}
}

func (c *clusterOnly) serve(conn net.Conn) {
	s, _, err := carrier.Serve(context.Background(), conn, func(_ context.Context, h *tunnelv1.Hello) (*tunnelv1.Welcome, *tunnelv1.Refused) {
		if h.GetToken() != "good" {
			return nil, &tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_UNAUTHENTICATED, Message: "the token is not known"}
		}
		return &tunnelv1.Welcome{User: "ada", Proxy: "tunnel-proxy-0"}, nil
	})
	if err != nil {
		return
	}
	go func() {
		for {
			if _, err := s.Receive(context.Background()); err != nil {
				return
			}
		}
	}()
	for {
		in, err := s.Accept(context.Background())
		if err != nil {
			return
		}
		go c.reach(in)
	}
}

func (c *clusterOnly) reach(in *carrier.Incoming) {
	a := in.Open.GetAddress()
	there, refused := c.gate.Open(context.Background(), outbound.Who{Via: "tunnel", User: "ada"}, a.GetHost(), a.GetPort())
	if refused != nil {
		in.Refuse(refused)
		return
	}
	here, err := in.Accept()
	if err != nil {
		there.Abandon(err)
		return
	}
	there.Join(relay.Of(here))
}

// Rules implements outbound.Knows.
func (c *clusterOnly) Rules() policy.Config { return policy.Config{} }

// Namespace implements outbound.Knows.
func (c *clusterOnly) Namespace(netip.Addr, string) string { return "" }

// Kind implements outbound.Knows.
func (c *clusterOnly) Service(string) bool { return false }

func (c *clusterOnly) Kind(netip.Addr) policy.Kind { return policy.KindUnknown }

// Begun implements outbound.Counts.
func (c *clusterOnly) Begun(audit.Direction) func() { return func() {} }

// LookupNetIP implements outbound.Resolver.
func (c *clusterOnly) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	known := map[string]string{"tunnel-api.signadot.svc": "10.96.0.70", "kube-dns.kube-system.svc.cluster.local": "10.96.0.53"}
	if a := known[host]; a != "" {
		return []netip.Addr{netip.MustParseAddr(a)}, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

// GetOperatorInfo implements tunnelv1.TunnelAPIServer.
func (c *clusterOnly) GetOperatorInfo(context.Context, *tunnelv1.GetOperatorInfoRequest) (*tunnelv1.GetOperatorInfoResponse, error) {
	return &tunnelv1.GetOperatorInfoResponse{Version: "test", ClusterDomain: "cluster.local", Cidrs: []*tunnelv1.CIDR{
		{Name: "vms", Cidr: "10.245.0.0/16"}, {Name: "all", Cidr: "0.0.0.0/0"}, {Name: "printers", Cidr: "10.245.7.0/24", Exclude: true}}}, nil
}

// WatchLocalSandboxes implements tunnelv1.TunnelAPIServer.
func (c *clusterOnly) WatchLocalSandboxes(_ *tunnelv1.WatchLocalSandboxesRequest, stream grpc.ServerStreamingServer[tunnelv1.WatchLocalSandboxesResponse]) error {
	<-stream.Context().Done()
	return nil
}

// WatchServices implements tunnelv1.TunnelAPIServer.
func (c *clusterOnly) WatchServices(_ *tunnelv1.WatchServicesRequest, stream grpc.ServerStreamingServer[tunnelv1.WatchServicesResponse]) error {
	of := func(name string, addresses ...string) *tunnelv1.Service {
		short := name + ".hotrod"
		return &tunnelv1.Service{Namespace: "hotrod", Name: name, Addresses: addresses, DnsNames: []string{short, short + ".svc", short + ".svc.cluster.local"}}
	}
	err := stream.Send(&tunnelv1.WatchServicesResponse{Changed: []*tunnelv1.Service{of("cart", "10.96.0.10", "fd00:10:96::10")}, Position: "1"})
	if err == nil {
		err = stream.Send(&tunnelv1.WatchServicesResponse{Changed: []*tunnelv1.Service{of("pods")}, Position: "2", Synced: true})
	}
	if err == nil {
		<-stream.Context().Done()
	}
	return err
}
