package server_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/controlplane-link/admission"
	"switchyard.dev/controlplane-link/link"
	"switchyard.dev/controlplane-link/registry"
	"switchyard.dev/controlplane-link/server"
	"switchyard.dev/eventbus/trust/trusttest"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/cable"
	"switchyard.dev/tests/link/agents"
	"switchyard.dev/tools/wait"
	"switchyard.dev/tunnels/carrier"
)

func TestConnectionsThroughTheLink(t *testing.T) {
	s := newSite(t)
	r := s.serve("one", 100, nil)
	a, stop := s.start(s.config(r.address, "a"))
	state := s.becomes(a, "up", func(st link.State) bool { return st.Kind == link.Up })
	if w := state.Welcome; w.GetCluster() != "prod" || w.GetOrganisation() != "acme" || w.GetEpoch() != 1 || w.GetServer() != "one" {
		t.Errorf("welcomed with %v", w)
	}
	c := s.eventually(r)
	if _, err := io.WriteString(c, "hello"); err != nil {
		t.Fatal(err)
	}
	if err := expect(c, "hello"); err != nil {
		t.Fatal(err)
	}
	if there := s.session(r); there.Hello.GetToken() != "" || there.Hello.GetClusterUid() != "uid-1" || there.Epoch != 1 {
		t.Fatalf("%+v", there)
	}
	stop()
	if _, err := io.Copy(io.Discard, c); !errors.Is(err, carrier.ErrCut) {
		t.Errorf("a connection that was cut reads %v", err)
	}
	s.ended()
	if _, err := r.Open(t.Context(), prod, &linkv1.Open{}); !errors.Is(err, server.ErrNoAgent) {
		t.Errorf("without an agent: %v", err)
	}
}

// TestNothingIsSentToOtherServers has servers that are not the control plane, or cannot show that they
// are. Each counts the bytes that it can decrypt, and offers to read a Hello.
func TestNothingIsSentToOtherServers(t *testing.T) {
	s := newSite(t)
	with := func(c *tls.Config, protocols ...string) *tls.Config {
		c.NextProtos = protocols
		return c
	}
	old := with(s.certificate(s.authority, "127.0.0.1"), link.Protocol)
	old.MaxVersion = tls.VersionTLS12
	for name, c := range map[string]struct {
		config    *tls.Config // nil: no TLS
		published bool
		kind      link.Kind
		err       string
	}{
		"another authority":                 {with(s.certificate(trusttest.New(t, "acme"), "127.0.0.1"), link.Protocol), false, link.Down, "not trusted"},
		"another name":                      {with(s.certificate(s.authority, "127.0.0.2"), link.Protocol), false, link.Down, "not trusted"},
		"another protocol":                  {with(s.certificate(s.authority, "127.0.0.1"), "h2"), false, link.Down, "nothing was sent"},
		"another protocol, published":       {with(s.certificate(trusttest.New(t, "vendor"), "127.0.0.1"), "h2"), true, link.Foreign, "nothing was sent"},
		"no protocol":                       {with(s.certificate(s.authority, "127.0.0.1")), false, link.Down, "nothing was sent"},
		"no protocol, published":            {with(s.certificate(trusttest.New(t, "vendor"), "127.0.0.1")), true, link.Foreign, "nothing was sent"},
		"another version of TLS, published": {old, true, link.Foreign, "nothing was sent"},
		"no TLS, published":                 {nil, true, link.Foreign, "nothing was sent"},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			var read atomic.Int64
			go func() {
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					go func() {
						defer conn.Close()
						if c.config == nil {
							_, _ = io.WriteString(conn, "220 welcome\r\n")
							text, _ := io.ReadAll(conn)
							read.Add(int64(strings.Count(string(text), "s3cret")))
							return
						}
						n, _ := io.Copy(io.Discard, tls.Server(conn, c.config))
						read.Add(n)
					}()
				}
			}()
			cfg := s.config(l.Addr().String(), "a")
			cfg.Published = c.published
			a, stop := s.start(cfg)
			state := s.becomes(a, c.kind.String(), func(st link.State) bool { return st.Kind == c.kind && st.Err != nil })
			if !strings.Contains(state.Err.Error(), c.err) {
				t.Errorf("the error is %v", state.Err)
			}
			stop()
			if n := read.Load(); n > 0 {
				t.Errorf("the server has read %d bytes", n)
			}
		})
	}
}

// TestNothingIsSentWithoutAnAuthority has a server that would be trusted with one, and none at all. At the
// published address the agent is ready, as the published install command waits for it.
func TestNothingIsSentWithoutAnAuthority(t *testing.T) {
	s := newSite(t)
	nothing, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = nothing.Close()
	for what, address := range map[string]string{"certificate is not trusted": s.serve("one", 10, nil).address, "is not reached": nothing.Addr().String()} {
		for published, kind := range map[bool]link.Kind{true: link.Foreign, false: link.Down} {
			cfg := s.config(address, "a")
			cfg.Published, cfg.Verify = published, nil
			a, stop := s.start(cfg)
			state := s.becomes(a, kind.String(), func(st link.State) bool { return st.Kind == kind && st.Err != nil })
			ready, message := state.Ready(time.Now())
			if ready != published || !strings.Contains(message, what) || strings.Count(message, "set controlPlane.tunnelAddr and controlPlane.ca") != 1 {
				t.Errorf("published %t: ready %t, %s", published, ready, message)
			}
			stop()
		}
	}
	if e, _ := s.registry.Get(t.Context(), prod); e.Epoch != 0 {
		t.Errorf("the server admitted an agent: %+v", e)
	}
}

// TestOnlyLoopbackIsReachedWithoutTLS has a program on this machine that adds TLS.
func TestOnlyLoopbackIsReachedWithoutTLS(t *testing.T) {
	s := newSite(t)
	for _, address := range []string{"10.0.0.1:443", "0.0.0.0:443", "[::ffff:10.0.0.1]:443", "localhost.example.com:443", "127.0.0.1.example.com:443"} {
		cfg := s.config(address, "a")
		cfg.Plain = true
		if _, err := link.New(cfg); err == nil || !strings.Contains(err.Error(), "in the clear") {
			t.Errorf("%s: %v", address, err)
		}
	}
	r := s.serve("one", 10, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			secure, err := tls.Dial("tcp", r.address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{link.Protocol}})
			if err != nil {
				_ = conn.Close()
				continue
			}
			go func() { _, _ = io.Copy(secure, conn); _ = secure.Close() }()
			go func() { _, _ = io.Copy(conn, secure); _ = conn.Close() }()
		}
	}()
	cfg := s.config(l.Addr().String(), "a")
	cfg.Plain, cfg.Verify = true, nil
	cfg.Proxy = func(string) (*url.URL, error) { return nil, errors.New("a proxy is used") }
	a, _ := s.start(cfg)
	s.up(a, 1)
	_ = s.eventually(r).Close()
}

func TestATokenIsBoundToItsFirstCluster(t *testing.T) {
	s := newSite(t)
	r := s.serve("one", 100, nil)
	a, _ := s.start(s.config(r.address, "a"))
	s.up(a, 1)
	other := s.config(r.address, "b")
	other.Hello = agents.Hello("uid-2", "b")
	b, _ := s.start(other)
	state := s.becomes(b, "refused", func(st link.State) bool { return st.Err != nil })
	if m := state.Err.Error(); !strings.Contains(m, "uid-1") || !strings.Contains(m, "uid-2") || !strings.Contains(m, "prod") {
		t.Errorf("refused with %q", m)
	}
	unknown := s.config(r.address, "c")
	unknown.Token = func() (string, error) { return "s3cret-unknown", nil }
	c, _ := s.start(unknown)
	s.becomes(c, "refused", func(st link.State) bool { return st.Err != nil && strings.Contains(st.Err.Error(), "not known") })
	s.eventually(r)
	if e, _ := s.registry.Get(t.Context(), prod); e.Epoch != 1 || e.Instance != "a" {
		t.Errorf("the session is now %+v", e)
	}
}

// TestANewerAgentHasTheSession starts a second agent beside a first one: the session changes once,
// both are ready, and the first has it again when the second has ended.
func TestANewerAgentHasTheSession(t *testing.T) {
	s := newSite(t)
	r := s.serve("one", 100, nil)
	a, rotate := s.rotates(r)
	b, stop := s.start(s.config(r.address, "b"))
	s.up(b, 2)
	s.becomes(a, "superseded", func(st link.State) bool {
		var refused *link.RefusedError
		return st.Kind == link.Superseded && errors.As(st.Err, &refused)
	})
	s.eventually(r)
	if e, _ := s.registry.Get(t.Context(), prod); e.Epoch != 2 || e.Instance != "b" {
		t.Errorf("the session is now %+v", e)
	}
	stop()
	s.ended()
	rotate("s3cret-new") // instead of the time in the refusal
	s.up(a, 3)
	s.eventually(r)
}

func TestARevokedTokenEndsTheSession(t *testing.T) {
	s := newSite(t)
	r := s.serve("one", 100, nil)
	a, rotate := s.rotates(r)
	c := s.eventually(r)
	s.revoke("1")
	if _, err := io.Copy(io.Discard, c); !errors.Is(err, carrier.ErrCut) {
		t.Errorf("a connection reads %v", err)
	}
	s.becomes(a, "refused", func(st link.State) bool {
		return st.Kind == link.Down && st.Err != nil && strings.Contains(st.Err.Error(), "not known")
	})
	rotate("s3cret-new")
	s.up(a, 2)
}

// TestATokenRotatesWithoutARestart has the agent connect again beside its session.
func TestATokenRotatesWithoutARestart(t *testing.T) {
	s := newSite(t)
	r := s.serve("one", 100, nil)
	a, rotate := s.rotates(r)
	c := s.eventually(r)
	rotate("s3cret-new")
	s.up(a, 2)
	s.eventually(r)
	if _, err := io.Copy(io.Discard, c); !errors.Is(err, carrier.ErrCut) { // the server ends the former session
		t.Errorf("a connection reads %v", err)
	}
}

// TestATokenOfAnotherClusterEndsTheFormerSession rotates the token to one of another cluster, the server of
// which does not know the former session.
func TestATokenOfAnotherClusterEndsTheFormerSession(t *testing.T) {
	s := newSite(t)
	r := s.serve("one", 100, nil)
	a, rotate := s.rotates(r)
	former := s.session(r)
	s.issue("s3cret-stage", registry.Token{ID: "stage", Cluster: registry.Cluster{Organisation: "acme", Name: "stage"}})
	rotate("s3cret-stage")
	s.becomes(a, "up as stage", func(st link.State) bool { return st.Kind == link.Up && st.Welcome.GetCluster() == "stage" })
	select {
	case <-former.Done():
	case <-time.After(patience):
		t.Fatal("the former session continues")
	}
	s.ended()
}

// TestATokenKeepsTheSessionBesideAnAttempt rotates the token a second time during the attempt with the first.
func TestATokenKeepsTheSessionBesideAnAttempt(t *testing.T) {
	s := newSite(t)
	r := s.serve("one", 100, nil)
	var waits atomic.Bool
	waiting, proceed := make(chan struct{}, 10), make(chan struct{})
	cfg := s.config(r.address, "a")
	rotate, next := s.rotating(&cfg), cfg.Hello
	cfg.Hello = func(ctx context.Context) (*linkv1.Hello, error) {
		if waits.Load() {
			waiting <- struct{}{}
			<-proceed
		}
		return next(ctx)
	}
	a, _ := s.start(cfg)
	t.Cleanup(func() { close(proceed) }) // before the agent's end
	s.up(a, 1)
	c := s.eventually(r)
	former := s.session(r)
	waits.Store(true)
	rotate("s3cret-new")
	<-waiting
	rotate("s3cret-newer")
	select { // the agent reads the token each second
	case <-former.Done():
		t.Fatal("the session has ended")
	case <-waiting:
		t.Fatal("a second attempt has begun")
	case <-time.After(3 * time.Second):
	}
	if _, err := io.WriteString(c, "hello"); err != nil {
		t.Fatal(err)
	}
	if err := expect(c, "hello"); err != nil {
		t.Fatal(err)
	}
}

func TestASessionAtAnotherReplicaEndsTheFormerOne(t *testing.T) {
	s := newSite(t)
	// No renewal of a lease ends the session.
	long := func(c *server.Config) { c.Lease = time.Hour }
	one, two := s.serve("one", 100, long), s.serve("two", 100, long)
	a, _ := s.start(s.config(one.address, "a"))
	s.up(a, 1)
	first := s.session(one)
	b, _ := s.start(s.config(two.address, "b"))
	s.up(b, 2)
	select {
	case <-first.Done():
	case <-time.After(patience):
		t.Fatal("the former session goes on")
	}
	s.eventually(two)
}

// TestDrainLosesNoConnection drains the replica that has the session. A connection through it
// continues until it is closed, and new ones use the other replica.
func TestDrainLosesNoConnection(t *testing.T) {
	s := newSite(t)
	one, two := s.serve("one", 100, nil), s.serve("two", 100, nil)
	var to atomic.Value
	to.Store(one.address)
	front := s.forward(&to)
	a, _ := s.start(s.config(front, "a"))
	s.up(a, 1)
	c := s.eventually(one)
	to.Store(two.address)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		one.Drain(t.Context())
	}()
	s.up(a, 2)
	s.eventually(two)
	if _, err := io.WriteString(c, "still here"); err != nil {
		t.Fatal(err)
	}
	if err := expect(c, "still here"); err != nil {
		t.Fatal(err)
	}
	one.stop()
	<-drained
	if e, _ := s.registry.Get(t.Context(), prod); e.Epoch != 2 || e.Replica != "two" || !e.Live(time.Now()) {
		t.Errorf("the session is now %+v", e)
	}
}

// forward carries connections to an address that can change.
func (s *site) forward(to *atomic.Value) (address string) {
	s.Helper()
	return background.Listen(s, func(near net.Conn) {
		if far, err := net.Dial("tcp", to.Load().(string)); err == nil {
			join(near, far)
		}
	})
}

// join copies both ways until one end closes.
func join(a, b net.Conn) {
	copies := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		_ = to.Close()
	}
	go copies(a, b)
	copies(b, a)
}

func TestAnAgentReconnects(t *testing.T) {
	s := newSite(t)
	r := s.serve("one", 100, nil)
	line := cable.Lay(t, "127.0.0.1", r.address)
	a, _ := s.start(s.config(line.Address, "a"))
	for epoch := range uint64(5) {
		s.up(a, epoch+1)
		s.eventually(r)
		line.Cut()
	}
	s.up(a, 6)
	line.Sever(true)
	s.becomes(a, "down", func(st link.State) bool { return st.Kind == link.Down })
	line.Sever(false)
	s.up(a, 7)
	s.eventually(r)
}

// TestSilentConnectionsKeepNoAgentOut has more silent connections than the listener takes, from the
// address that all agents share, and more that come all the time.
func TestSilentConnectionsKeepNoAgentOut(t *testing.T) {
	s := newSite(t)
	const most = 200
	r := s.serve("one", most, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	silent := func() {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", r.address)
		if err == nil {
			context.AfterFunc(ctx, func() { _ = c.Close() })
			_, _ = io.Copy(io.Discard, c) // until the server closes it
			_ = c.Close()
		}
	}
	for range 2 * most {
		go func() {
			for ctx.Err() == nil {
				silent()
				_ = wait.For(ctx, 200*time.Millisecond)
			}
		}()
	}
	for i := range 20 {
		name := string(rune('a' + i))
		s.issue("s3cret-"+name, registry.Token{ID: "silent-" + name, Cluster: registry.Cluster{Organisation: "acme", Name: name}})
		cfg := s.config(r.address, name)
		cfg.Token = func() (string, error) { return "s3cret-" + name, nil }
		a, _ := s.start(cfg)
		defer s.up(a, 1)
	}
}

// TestARenewalEndsASessionThatWasReplaced has a registry that notifies no replica.
func TestARenewalEndsASessionThatWasReplaced(t *testing.T) {
	s := newSite(t)
	short := func(c *server.Config) { c.Registry, c.Lease = silentRegistry{s.registry}, 300*time.Millisecond }
	one, two := s.serve("one", 100, short), s.serve("two", 100, short)
	a, _ := s.start(s.config(one.address, "a"))
	s.up(a, 1)
	first := s.session(one)
	b, _ := s.start(s.config(two.address, "b"))
	s.up(b, 2)
	select {
	case <-first.Done():
	case <-time.After(patience):
		t.Fatal("the former session goes on")
	}
}

// silentRegistry is a registry that notifies no replica.
type silentRegistry struct{ *registry.Memory }

// Watch implements registry.Registry.
func (silentRegistry) Watch(context.Context, func(registry.Cluster, admission.Entry)) {}

// slowRegistry notifies no replica, and answers the first Swap once it is released.
type slowRegistry struct {
	silentRegistry
	release chan struct{}
}

// Swap implements registry.Registry.
func (r slowRegistry) Swap(ctx context.Context, c registry.Cluster, old, next admission.Entry) (bool, error) {
	done, err := r.silentRegistry.Swap(ctx, c, old, next)
	if next.Epoch == 1 {
		<-r.release
	}
	return done, err
}

// slow has an agent that is admitted, and a replica that does not know it yet.
func (s *site) slow() (r *replica, a *link.Agent, release func()) {
	s.Helper()
	known := slowRegistry{silentRegistry{s.registry}, make(chan struct{})}
	release = sync.OnceFunc(func() { close(known.release) })
	r = s.serve("one", 100, func(c *server.Config) { c.Registry, c.Lease = known, time.Hour })
	s.Cleanup(release)
	a, _ = s.start(s.config(r.address, "a"))
	wait.Eventually(s.TB, patience, "the admission", func() error {
		if e, _ := s.registry.Get(s.Context(), prod); e.Epoch != 1 {
			return errors.New("there is none")
		}
		return nil
	})
	return r, a, release
}

func TestASessionThatWasReplacedBeforeItBeganEnds(t *testing.T) {
	s := newSite(t)
	r, a, release := s.slow()
	b, _ := s.start(s.config(r.address, "b"))
	s.up(b, 2)
	release()
	s.becomes(a, "superseded", func(st link.State) bool { return st.Kind == link.Superseded })
	s.eventually(r)
}

func TestAnAgentThatIsAdmittedDuringDrainLeaves(t *testing.T) {
	s := newSite(t)
	r, _, release := s.slow()
	r.Drain(t.Context())
	release()
	s.ended()
}

func TestConnectionsOfAgentsAreRefused(t *testing.T) {
	s := newSite(t)
	r := s.serve("one", 100, nil)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.authority.Bundle())
	conn, err := tls.Dial("tcp", r.address, link.Settings().Secure(&tls.Config{RootCAs: roots, ServerName: "127.0.0.1"}))
	if err != nil {
		t.Fatal(err)
	}
	greeting, _ := agents.Hello("uid-1", "a")(t.Context())
	greeting.Token = "s3cret-prod"
	session, err := link.Settings().Connect(t.Context(), conn, greeting, &linkv1.Answer{}, func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close(nil)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var refused *carrier.RefusedError
	if _, err := session.Open(ctx, &linkv1.Open{}); !errors.As(err, &refused) {
		t.Errorf("it is %v", err)
	}
}

// TestTheConfigurationOfEachClientApplies has the certificate in the configuration that GetConfigForClient returns.
func TestTheConfigurationOfEachClientApplies(t *testing.T) {
	s := newSite(t)
	r := s.serve("one", 100, func(c *server.Config) {
		own := c.TLS
		c.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return own, nil }}
	})
	a, _ := s.start(s.config(r.address, "a"))
	s.up(a, 1)
	s.eventually(r)
}

// TestSilentConnectionsDoNotEndAHandshake has a client that waits for the server's certificate while more silent
// connections come than the listener keeps. The server gives up a handshake after some seconds, so there are
// several attempts.
func TestSilentConnectionsDoNotEndAHandshake(t *testing.T) {
	s := newSite(t)
	const most = 20
	begun, proceed := make(chan struct{}), make(chan struct{})
	r := s.serve("one", most, func(c *server.Config) {
		pair := c.TLS.Certificates[0]
		c.TLS = &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			begun <- struct{}{}
			<-proceed
			return &pair, nil
		}}
	})
	attempt := func() error {
		ended := make(chan error, 1)
		go func() {
			conn, err := tls.Dial("tcp", r.address, link.Settings().Secure(&tls.Config{InsecureSkipVerify: true}))
			if err == nil {
				_ = conn.Close()
			}
			ended <- err
		}()
		<-begun
		var first net.Conn
		for range 2 * most {
			c, err := net.Dial("tcp", r.address)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if first == nil {
				first = c
			}
		}
		if _, err := first.Read(make([]byte, 1)); err == nil {
			t.Error("the server has sent something")
		}
		proceed <- struct{}{}
		return <-ended
	}
	var err error
	for range 5 {
		if err = attempt(); err == nil {
			return
		}
	}
	t.Errorf("none of five handshakes ended: %v", err)
}
