package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"switchyard.dev/controlplane-link/admission"
	"switchyard.dev/controlplane-link/identity"
	"switchyard.dev/controlplane-link/link"
	"switchyard.dev/controlplane-link/reach"
	"switchyard.dev/controlplane-link/reach/allow"
	"switchyard.dev/controlplane-link/registry"
	"switchyard.dev/controlplane-link/server"
	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/trust"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	pods "switchyard.dev/reconcilers/baseline/ready"
	"switchyard.dev/tests/bench/tunnels/lab"
	"switchyard.dev/tunnels/audit"
	"switchyard.dev/tunnels/carrier"
	"switchyard.dev/tunnels/policy"
	"switchyard.dev/tunnels/relay"
)

// The service as the control plane names it. The agent reaches no loopback address, so it is at
// directAddress.
const linkHost, linkPort = "service.bench.svc", 9001

// linked is the cluster. Its name is also its token.
var linked = registry.Cluster{Organisation: "bench", Name: "cluster"}

// runLinkServer is a control plane: connections to its two entrances go to the cluster as those of an API key's holder
// do, and those to the second can carry much. With a certificate of previews there is a third one, for the HTTP
// service, and previews.
func runLinkServer(at, cert, key, previews string) error {
	certificate, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return err
	}
	tokens := &registry.MemoryTokens{}
	tokens.Set(map[[sha256.Size]byte]registry.Token{sha256.Sum256([]byte(linked.Name)): {ID: "1", Cluster: linked}})
	main, err := server.New(server.Config{TLS: &tls.Config{Certificates: []tls.Certificate{certificate}}, Registry: &registry.Memory{}, Tokens: tokens, Replica: "bench"})
	if err != nil {
		return err
	}
	in, err := callers.Listen(at, "agents", server.MostConnections, 0, nil)
	if err != nil {
		return err
	}
	in.AwaitHandshakes()
	ended := make(chan error)
	ports := []uint32{linkPort, linkPort}
	if previews != "" {
		ports = append(ports, webPort)
		go func() { ended <- servePreviews(main, previews) }()
	}
	for i, port := range ports {
		front, err := net.Listen("tcp4", entrance(i))
		if err != nil {
			return err
		}
		go func() { ended <- each(front, func(conn net.Conn) { throughLink(main, conn, port, i > 0) }) }()
	}
	go func() { ended <- main.Serve(context.Background(), in) }()
	ready()
	return <-ended
}

func throughLink(s *server.Server, conn net.Conn, port uint32, bulk bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	stream, err := s.Open(ctx, linked, &linkv1.Open{Caller: &linkv1.Caller{Name: "jo", ApiKey: true}, To: &linkv1.Open_Service{Service: &tunnelv1.Address{Host: linkHost, Port: port}}, Bulk: bulk})
	if err != nil {
		_ = conn.Close()
		return
	}
	relay.Pipe(relay.Of(conn), relay.Of(stream))
}

// runLinkAgent is the agent of the cluster. It has no API server: bench answers for that.
func runLinkAgent(at, cert string) error {
	bundle, err := os.ReadFile(cert)
	if err != nil {
		return err
	}
	roots := trust.NewRoots(cert)
	if err := roots.Set(bundle); err != nil {
		return err
	}
	folder, err := os.MkdirTemp(filepath.Dir(cert), "journal-")
	if err != nil {
		return err
	}
	log, err := audit.Open(audit.Config{Dir: folder, Out: io.Discard})
	if err != nil {
		return err
	}
	service, err := reach.New(reach.Config{Allow: allow.Config{Namespace: "signadot", Domain: "cluster.local"}, Cluster: bench{}, Pods: &pods.Finder{}, Resolver: bench{}, Counts: bench{}, Audit: log})
	if err != nil {
		return err
	}
	a, err := link.New(link.Config{
		Address: at, Verify: roots.Verify, Token: func() (string, error) { return linked.Name, nil },
		Hello: func(context.Context) (*linkv1.Hello, error) {
			return &linkv1.Hello{Version: admission.Version, ClusterUid: linked.Name, Instance: "bench", OperatorVersion: "bench"}, nil
		},
		Handle: func(ctx context.Context, in *carrier.Incoming, welcome *linkv1.Welcome) {
			open, _ := in.Request.(*linkv1.Open)
			user, _ := identity.Of(welcome.GetOrganisation(), open.GetCaller())
			service.Serve(ctx, in, open, user)
		},
	})
	if err != nil {
		return err
	}
	ready()
	a.Run(context.Background())
	return errors.New("the agent has ended")
}

// bench is a cluster with one Service.
type bench struct{}

func (bench) Rules() policy.Config                 { return policy.Config{Reach: policy.ReachCluster} }
func (bench) Namespace(netip.Addr, string) string  { return "bench" }
func (bench) Service(host string) bool             { return host == linkHost }
func (bench) Kind(netip.Addr) policy.Kind          { return policy.KindPod }
func (bench) Begun(audit.Direction) (ended func()) { return func() {} }

// LookupNetIP implements outbound.Resolver.
func (bench) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr(lab.NearAddress)}, nil
}

func openLink(p *programs, s site) error {
	at := lab.FarAddress + ":7443"
	argv := []string{"-link-server", at, "-cert", s.file("cert.pem"), "-key", s.file("key.pem")}
	if _, err := os.Stat(s.file("previews")); err == nil {
		argv = append(argv, "-previews", s.file("previews"))
	}
	return errors.Join(
		p.ourselves(p.lab.Far, argv...),
		p.ourselves(p.lab.Near, "-link-agent", at, "-cert", s.file("cert.pem")),
	)
}
