package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"switchyard.dev/controlplane-link/registry"
	"switchyard.dev/controlplane-link/server"
	"switchyard.dev/eventbus/callers"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tests/bench/tunnels/lab"
	"switchyard.dev/tests/link/previews"
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
func runLinkServer(at, cert, key, dir string) error {
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
	if dir != "" {
		ports = append(ports, webPort)
		go func() { ended <- servePreviews(main, dir) }()
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

// runLinkAgent is the agent of the cluster. It has no API server.
func runLinkAgent(at, cert string) error {
	bundle, err := os.ReadFile(cert)
	if err != nil {
		return err
	}
	a, err := previews.NewAgent(previews.AgentConfig{
		Address: at, Bundle: bundle, Token: linked.Name, Dir: filepath.Dir(cert), Services: previews.Services{linkHost: netip.MustParseAddr(lab.NearAddress)},
	})
	if err != nil {
		return err
	}
	ready()
	a.Run(context.Background())
	return errors.New("the agent has ended")
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
