package server_test

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/controlplane-link/link"
	"switchyard.dev/controlplane-link/registry"
	"switchyard.dev/controlplane-link/server"
	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/trust/trusttest"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/link/agents"
	"switchyard.dev/tools/wait"
	"switchyard.dev/tunnels/carrier"
)

const patience = agents.Patience

var prod = registry.Cluster{Organisation: "acme", Name: "prod"}

// site is a control plane.
type site struct {
	testing.TB
	authority *trusttest.Authority
	registry  *registry.Memory
	tokens    *registry.MemoryTokens
	known     map[[sha256.Size]byte]registry.Token
	log       background.Output
}

func newSite(t testing.TB) *site {
	t.Helper()
	s := &site{TB: t, authority: trusttest.New(t, "acme"), registry: &registry.Memory{}, tokens: &registry.MemoryTokens{}, known: map[[sha256.Size]byte]registry.Token{}}
	s.issue("s3cret-prod", registry.Token{ID: "1", Cluster: prod})
	t.Cleanup(func() {
		if s.log.Says("s3cret") {
			t.Error("a token was logged")
		}
	})
	return s
}

// issue adds a cluster token, revoke removes one.
func (s *site) issue(value string, t registry.Token) {
	s.known[sha256.Sum256([]byte(value))] = t
	s.tokens.Set(s.known)
}

func (s *site) revoke(id string) {
	maps.DeleteFunc(s.known, func(_ [sha256.Size]byte, t registry.Token) bool { return t.ID == id })
	s.tokens.Set(s.known)
}

func (s *site) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(&s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// replica is a server, and its address.
type replica struct {
	*server.Server
	address string
	stop    context.CancelFunc
}

// serve begins a replica. most bounds its connections.
func (s *site) serve(name string, most int, change func(*server.Config)) *replica {
	s.Helper()
	cfg := server.Config{TLS: s.certificate(s.authority, "127.0.0.1"), Registry: s.registry, Tokens: s.tokens, Replica: name, Linger: patience, Logger: s.logger()}
	if change != nil {
		change(&cfg)
	}
	main, err := server.New(cfg)
	if err != nil {
		s.Fatal(err)
	}
	l, err := callers.Listen("127.0.0.1:0", "agents", most, 0, nil)
	if err != nil {
		s.Fatal(err)
	}
	l.AwaitHandshakes()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- main.Serve(ctx, l) }()
	s.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			s.Error(err)
		}
	})
	return &replica{main, l.Addr().String(), stop}
}

// certificate returns the configuration of a server.
func (s *site) certificate(a *trusttest.Authority, host string) *tls.Config {
	s.Helper()
	leaf := a.Leaf(s, host)
	pair, err := tls.X509KeyPair(leaf.Cert, leaf.Key)
	if err != nil {
		s.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}}
}

// config is that of an agent of cluster prod.
func (s *site) config(address, instance string) link.Config {
	s.Helper()
	cfg := agents.Config(s.TB, address, instance, s.authority.Bundle())
	cfg.Token, cfg.Handle, cfg.Logger = func() (string, error) { return "s3cret-prod", nil }, echo, s.logger()
	return cfg
}

// rotating has an agent use a token that rotate replaces by another one of cluster prod, unless that is issued.
func (s *site) rotating(cfg *link.Config) (rotate func(to string)) {
	var token atomic.Value
	token.Store("s3cret-prod")
	cfg.Token = func() (string, error) { return token.Load().(string), nil }
	return func(to string) {
		if _, is := s.known[sha256.Sum256([]byte(to))]; !is {
			s.issue(to, registry.Token{ID: to, Cluster: prod})
		}
		token.Store(to)
	}
}

// rotates starts such an agent, which is connected to a replica.
func (s *site) rotates(r *replica) (a *link.Agent, rotate func(to string)) {
	s.Helper()
	cfg := s.config(r.address, "a")
	rotate = s.rotating(&cfg)
	a, _ = s.start(cfg)
	s.up(a, 1)
	return a, rotate
}

// echo answers with the host that was requested and then with all that it reads.
func echo(_ context.Context, in *carrier.Incoming, _ *linkv1.Welcome) {
	c, err := in.Accept()
	if err != nil {
		return
	}
	defer c.Close()
	_, _ = io.WriteString(c, in.Request.(*linkv1.Open).GetService().GetHost()+"\n")
	_, _ = io.Copy(c, c)
}

// start begins an agent, which ends with the test or when stop is called.
func (s *site) start(cfg link.Config) (a *link.Agent, stop func()) {
	s.Helper()
	return agents.Start(s.TB, cfg)
}

// becomes waits for a state.
func (s *site) becomes(a *link.Agent, what string, is func(link.State) bool) link.State {
	s.Helper()
	return agents.Becomes(s.TB, a, what, is)
}

func (s *site) up(a *link.Agent, epoch uint64) {
	s.Helper()
	agents.Up(s.TB, a, epoch)
}

// reach opens a connection through a replica, and uses it.
func (s *site) reach(r *replica) (net.Conn, error) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	c, err := r.Open(ctx, prod, &linkv1.Open{Caller: &linkv1.Caller{Name: "jo"}, To: &linkv1.Open_Service{Service: &tunnelv1.Address{Host: "cart.shop", Port: 80}}})
	if err != nil {
		return nil, err
	}
	return c, expect(c, "cart.shop\n")
}

// session waits for the session of cluster prod at a replica.
func (s *site) session(r *replica) (a *server.Agent) {
	s.Helper()
	wait.Eventually(s.TB, patience, "a session", func() error {
		for _, a = range r.Agents() {
			if a.Cluster == prod {
				return nil
			}
		}
		return server.ErrNoAgent
	})
	return a
}

// expect reads a text, and returns an error for another.
func expect(c net.Conn, want string) error {
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		return errors.Join(err, errors.New("read "+string(got)))
	}
	return nil
}

// ended waits until the registry has no session.
func (s *site) ended() {
	s.Helper()
	wait.Eventually(s.TB, patience, "the end in the registry", func() error {
		if e, _ := s.registry.Get(s.Context(), prod); e.Live(time.Now()) {
			return errors.New("there is a session until " + e.Until.String())
		}
		return nil
	})
}

// eventually reaches the cluster through a replica.
func (s *site) eventually(r *replica) net.Conn {
	s.Helper()
	var c net.Conn
	wait.Eventually(s.TB, patience, "a connection to the cluster", func() (err error) {
		c, err = s.reach(r)
		return err
	})
	return c
}
