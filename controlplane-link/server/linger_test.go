package server_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/controlplane-link/link"
	"switchyard.dev/controlplane-link/registry"
	"switchyard.dev/controlplane-link/server"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	"switchyard.dev/tools/wait"
	"switchyard.dev/tunnels/carrier"
)

// echoes fails the test unless a connection is still used.
func (s *site) echoes(c net.Conn) {
	s.Helper()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, "still"); err != nil {
		s.Fatal(err)
	}
	if err := expect(c, "still"); err != nil {
		s.Fatal(err)
	}
}

// upgraded starts agent a, opens a connection through it, and then starts agent b.
func (s *site) upgraded(r *replica, linger time.Duration) (a *link.Agent, c net.Conn, stop, stopNewer func()) {
	s.Helper()
	cfg := s.config(r.address, "a")
	cfg.Linger = linger
	a, stop = s.start(cfg)
	s.up(a, 1)
	c = s.eventually(r)
	b, stopNewer := s.start(s.config(r.address, "b"))
	s.up(b, 2)
	wait.Eventually(s.TB, patience, "the session of b at the server", func() error {
		if all := r.Agents(); len(all) != 1 || all[0].Instance != "b" {
			return errors.New("it has another")
		}
		return nil
	})
	return a, c, stop, stopNewer
}

// TestConnectionsOfAFormerAgentEndByThemselves has an agent that is asked to end, as in an upgrade, while a
// connection through it is used.
func TestConnectionsOfAFormerAgentEndByThemselves(t *testing.T) {
	s := newSite(t)
	r := s.serve("one", 100, nil)
	_, c, stop, _ := s.upgraded(r, patience)
	s.echoes(c)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		stop()
	}()
	s.eventually(r)
	s.echoes(c)
	select {
	case <-ended:
		t.Fatal("the agent has ended before its connection")
	default:
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	<-ended
}

// TestRequestsToTheAPILeaveAFormerAgent has a transport that keeps a connection through it. A new one is used at once,
// and the former agent does not wait for the other.
func TestRequestsToTheAPILeaveAFormerAgent(t *testing.T) {
	s := newSite(t)
	r := s.serve("one", 100, func(c *server.Config) { c.Linger = time.Hour })
	start := func(name string) {
		cfg := s.config(r.address, name)
		cfg.Handle = func(_ context.Context, in *carrier.Incoming, _ *linkv1.Welcome) {
			c, err := in.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			for from := bufio.NewReader(c); ; {
				if _, err := http.ReadRequest(from); err != nil {
					return
				}
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n"+name)
			}
		}
		s.start(cfg)
	}
	kube := r.Transport(prod, &linkv1.Caller{})
	defer kube.CloseIdleConnections()
	answers := func(want string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://kubernetes/version", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := kube.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if got, err := io.ReadAll(answer.Body); err != nil || string(got) != want {
			t.Errorf("agent %q answers, not %q: %v", got, want, err)
		}
	}
	start("a")
	former := s.session(r)
	answers("a")
	start("b")
	wait.Eventually(t, patience, "the session of b", func() error {
		if r.Epoch(prod) != 2 {
			return errors.New("there is none")
		}
		return nil
	})
	answers("b")
	select {
	case <-former.Done():
	case <-time.After(patience):
		t.Error("the session of the former agent continues")
	}
}

// TestConnectionsOfAFormerAgentAreCutInTheEnd has one that does not end by itself.
func TestConnectionsOfAFormerAgentAreCutInTheEnd(t *testing.T) {
	s := newSite(t)
	r := s.serve("one", 100, func(c *server.Config) { c.Linger = time.Second })
	a, c, _, _ := s.upgraded(r, patience)
	if _, err := io.Copy(io.Discard, c); !errors.Is(err, carrier.ErrCut) {
		t.Errorf("the connection reads %v", err)
	}
	s.becomes(a, "superseded", func(st link.State) bool { return st.Kind == link.Superseded })
	s.eventually(r)
	if !s.log.Says("a former agent are cut") {
		t.Errorf("the log does not state it:\n%s", s.log.String())
	}
}

// TestAnAgentThatEndsCutsConnectionsInTheEnd has no other agent, and a connection that does not end.
func TestAnAgentThatEndsCutsConnectionsInTheEnd(t *testing.T) {
	s := newSite(t)
	r := s.serve("one", 100, nil)
	cfg := s.config(r.address, "a")
	cfg.Linger = time.Second
	a, stop := s.start(cfg)
	s.up(a, 1)
	c := s.eventually(r)
	stop()
	if _, err := io.Copy(io.Discard, c); !errors.Is(err, carrier.ErrCut) {
		t.Errorf("the connection reads %v", err)
	}
	if !s.log.Says("the agent ends, and cuts") {
		t.Errorf("the log does not state it:\n%s", s.log.String())
	}
}

// TestARevokedTokenEndsALingeringSession revokes it while a former agent has a connection.
func TestARevokedTokenEndsALingeringSession(t *testing.T) {
	s := newSite(t)
	r := s.serve("one", 100, nil)
	_, c, _, _ := s.upgraded(r, patience)
	s.echoes(c)
	s.revoke("1")
	_ = c.SetDeadline(time.Now().Add(patience / 2)) // less than it lingers
	if _, err := io.Copy(io.Discard, c); !errors.Is(err, carrier.ErrCut) {
		t.Errorf("the connection reads %v", err)
	}
}

// TestALingeringSessionEndsWithoutANewerOne has the newer agent end while the former one has a connection.
func TestALingeringSessionEndsWithoutANewerOne(t *testing.T) {
	s := newSite(t)
	r := s.serve("one", 100, func(c *server.Config) { c.Linger = time.Hour })
	_, c, _, stop := s.upgraded(r, patience)
	s.echoes(c)
	stop()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := io.Copy(io.Discard, c); !errors.Is(err, carrier.ErrCut) {
		t.Errorf("the connection reads %v", err)
	}
}

// TestDrainWaitsForFormerAgents drains a replica while a former agent has a connection, and the newer one has ended.
func TestDrainWaitsForFormerAgents(t *testing.T) {
	s := newSite(t)
	r := s.serve("one", 100, func(c *server.Config) { c.Linger = time.Hour })
	_, c, _, stop := s.upgraded(r, patience)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		r.Drain(t.Context())
	}()
	wait.Eventually(t, patience, "the beginning", func() error {
		if !r.Draining() {
			return errors.New("it has not begun")
		}
		return nil
	})
	stop()
	select {
	case <-drained:
		t.Fatal("Drain does not wait for the former agent")
	case <-time.After(3 * time.Second): // longer than a session lingers that has no successor
	}
	s.echoes(c)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	<-drained
}

// TestAFormerAgentDoesNotReturnAfterARestart replaces the server by one that has an empty registry, and has the
// former agent connect while the newer one has the session.
func TestAFormerAgentDoesNotReturnAfterARestart(t *testing.T) {
	s := newSite(t)
	r := s.serve("one", 100, nil)
	var to atomic.Value
	to.Store(r.address)
	front := s.forward(&to)
	cfg := s.config(front, "a")
	rotate := s.rotating(&cfg)
	a, _ := s.start(cfg)
	s.up(a, 1)
	b, _ := s.start(s.config(front, "b"))
	s.up(b, 2)
	refusedAt := func(epoch string) {
		s.Helper()
		s.becomes(a, "refused at epoch "+epoch, func(st link.State) bool {
			var refused *link.RefusedError
			return st.Kind == link.Superseded && errors.As(st.Err, &refused) && strings.Contains(st.Err.Error(), "epoch "+epoch)
		})
	}
	refusedAt("2")
	empty := &registry.Memory{}
	to.Store(s.serve("restarted", 100, func(c *server.Config) { c.Registry = empty }).address)
	r.stop()
	wait.Eventually(t, patience, "the session of b at the new server", func() error {
		if e, _ := empty.Get(t.Context(), prod); e.Instance != "b" || !e.Live(time.Now()) {
			return fmt.Errorf("it has %+v", e)
		}
		return nil
	})
	rotate("s3cret-new") // instead of the time in the refusal
	refusedAt("1")
	if e, _ := empty.Get(t.Context(), prod); e.Instance != "b" || e.Epoch != 1 {
		t.Errorf("the session is now %+v", e)
	}
}

// TestDrainEndsIdleSessions drains a replica that is alone, and one of two: the session of the second ends once the
// agent has another, and not before.
func TestDrainEndsIdleSessions(t *testing.T) {
	s := newSite(t)
	long := func(c *server.Config) { c.Linger = time.Hour }
	drains := func(r *replica) chan struct{} {
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			r.Drain(t.Context())
		}()
		return drained
	}
	within := func(drained chan struct{}) {
		t.Helper()
		select {
		case <-drained:
		case <-time.After(patience):
			t.Fatal("an idle session continues")
		}
	}
	alone := s.serve("alone", 100, long)
	var to atomic.Value
	to.Store(alone.address)
	a, _ := s.start(s.config(s.forward(&to), "a"))
	s.up(a, 1)
	within(drains(alone))

	replicated := func(c *server.Config) { long(c); c.Replicas = c.TLS }
	one, two := s.serve("one", 100, replicated), s.serve("two", 100, replicated)
	to.Store(one.address)
	s.up(a, 2)
	session := s.session(one)
	to.Store("127.0.0.1:1") // nothing listens there
	drained := drains(one)
	wait.Eventually(t, patience, "the end of its lease", func() error {
		if e, _ := s.registry.Get(t.Context(), prod); e.Live(time.Now()) {
			return errors.New("it continues")
		}
		return nil
	})
	select {
	case <-session.Done():
		t.Error("the session ended before the agent had another")
	case <-time.After(5 * 100 * time.Millisecond): // several checks
	}
	to.Store(two.address)
	s.up(a, 3)
	within(drained)
	s.eventually(two)
}

// TestDrainServesAllClusters drains a replica that is alone, while one of two clusters has a connection: the other one
// is reached until that ends.
func TestDrainServesAllClusters(t *testing.T) {
	s := newSite(t)
	s.tokens.Set(map[[sha256.Size]byte]registry.Token{sha256.Sum256([]byte("s3cret-prod")): {ID: "1", Cluster: prod}, sha256.Sum256([]byte("s3cret-stage")): {ID: "2", Cluster: stage}})
	r := s.serve("one", 100, func(c *server.Config) { c.Linger = time.Hour })
	cfg := s.config(r.address, "a")
	cfg.Token = func() (string, error) { return "s3cret-prod", nil }
	a, _ := s.start(cfg)
	s.up(a, 1)
	busy := s.eventually(r)
	b, _ := s.agentOf(r, "b", "s3cret-stage", "uid-2")
	s.up(b, 1)
	if err := s.answers(r, stage, "b"); err != nil {
		t.Fatal(err)
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		r.Drain(t.Context())
	}()
	wait.Eventually(t, patience, "the end of a lease", func() error {
		if e, _ := s.registry.Get(t.Context(), stage); e.Live(time.Now()) {
			return errors.New("it continues")
		}
		return nil
	})
	time.Sleep(5 * 100 * time.Millisecond) // several checks
	if err := s.answers(r, stage, "b"); err != nil {
		t.Errorf("the idle cluster is not reached: %v", err)
	}
	s.echoes(busy)
	_ = busy.Close()
	<-drained
}
