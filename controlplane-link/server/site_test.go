package server_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"switchyard.dev/controlplane-link/admission"
	"switchyard.dev/controlplane-link/link"
	"switchyard.dev/controlplane-link/registry"
	"switchyard.dev/controlplane-link/server"
	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/trust"
	"switchyard.dev/eventbus/trust/trusttest"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	"switchyard.dev/tools/wait"
	"switchyard.dev/tunnels/attempts"
	"switchyard.dev/tunnels/carrier"
)

const patience = time.Minute

var prod = registry.Cluster{Organisation: "acme", Name: "prod"}

// site is a control plane.
type site struct {
	testing.TB
	authority *trusttest.Authority
	registry  *registry.Memory
	tokens    *registry.MemoryTokens
	log       lines
}

// lines keeps the log.
type lines struct {
	sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.text.Write(b)
}

func newSite(t testing.TB) *site {
	t.Helper()
	s := &site{TB: t, authority: trusttest.New(t, "acme"), registry: &registry.Memory{}, tokens: &registry.MemoryTokens{}}
	s.tokens.Add("s3cret-prod", registry.Token{ID: "1", Cluster: prod})
	t.Cleanup(func() {
		if strings.Contains(s.log.text.String(), "s3cret") {
			t.Error("a token was logged")
		}
	})
	return s
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
	roots := trust.NewRoots("the test")
	if err := roots.Set(s.authority.Bundle()); err != nil {
		s.Fatal(err)
	}
	return link.Config{
		Address: address, Verify: roots.Verify, Token: func() (string, error) { return "s3cret-prod", nil }, Handle: echo, Logger: s.logger(),
		Hello: hello("uid-1", instance),
		Policy: attempts.Policy{
			Shortest: time.Millisecond, Longest: 50 * time.Millisecond, Brisk: 50 * time.Millisecond, Fresh: time.Hour,
			Patience: attempts.Endless, MaxGap: time.Hour, FullJitter: true,
		},
	}
}

func hello(uid, instance string) func(context.Context) (*linkv1.Hello, error) {
	return func(context.Context) (*linkv1.Hello, error) {
		return &linkv1.Hello{Version: admission.Version, ClusterUid: uid, Instance: instance, OperatorVersion: "test"}, nil
	}
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
	a, err := link.New(cfg)
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.Run(ctx)
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	s.Cleanup(stop)
	return a, stop
}

// becomes waits for a state.
func (s *site) becomes(a *link.Agent, what string, is func(link.State) bool) link.State {
	s.Helper()
	deadline := time.After(patience)
	for {
		state, changed := a.State()
		if is(state) {
			return state
		}
		select {
		case <-changed:
		case <-deadline:
			s.Fatalf("the agent does not become %s: %s, %v", what, state.Kind, state.Err)
		}
	}
}

func (s *site) up(a *link.Agent, epoch uint64) {
	s.Helper()
	s.becomes(a, "up", func(st link.State) bool { return st.Kind == link.Up && st.Welcome.GetEpoch() >= epoch })
}

// reach opens a connection through a replica, and uses it.
func (s *site) reach(r *replica) (net.Conn, error) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	a, err := r.Agent(ctx, prod)
	if err != nil {
		return nil, err
	}
	c, err := a.Service(ctx, &linkv1.Caller{Name: "jo"}, "cart.shop", 80)
	if err != nil {
		return nil, err
	}
	return c, expect(c, "cart.shop\n")
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
		if e, _ := s.registry.Get(s.Context(), prod); !e.Until.IsZero() {
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
