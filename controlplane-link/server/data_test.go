package server_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"switchyard.dev/controlplane-link/admission"
	"switchyard.dev/controlplane-link/link"
	"switchyard.dev/controlplane-link/registry"
	"switchyard.dev/controlplane-link/server"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tests/background"
	"switchyard.dev/tools/wait"
	"switchyard.dev/tunnels/carrier"
)

// balancer carries the connections of agents to replicas.
type balancer struct {
	address string
	choose  func(n int) string // the address for the connection of a number, from 0

	mu    sync.Mutex
	conns []net.Conn
}

func (s *site) balance(choose func(int) string) *balancer {
	s.Helper()
	b := &balancer{choose: choose}
	b.address = background.Listen(s, func(near net.Conn) {
		b.mu.Lock()
		n := len(b.conns)
		b.conns = append(b.conns, near)
		b.mu.Unlock()
		if far, err := net.Dial("tcp", b.choose(n)); err == nil {
			join(near, far)
		}
	})
	return b
}

// count returns how many connections there were, and cut ends that of a number.
func (b *balancer) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.conns)
}

func (b *balancer) cut(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = b.conns[n].Close()
}

// bulk opens a connection that can carry much through a replica, and uses it.
func (s *site) bulk(r *replica) net.Conn {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	c, err := r.Open(ctx, prod, &linkv1.Open{Caller: &linkv1.Caller{Name: "jo"}, To: &linkv1.Open_Service{Service: &tunnelv1.Address{Host: "cart.shop", Port: 80}}, Bulk: true})
	if err == nil {
		err = expect(c, "cart.shop\n")
	}
	if err != nil {
		s.Fatal(err)
	}
	return c
}

// carried opens connections that can carry much until one is over another connection of the agent than c is.
func (s *site) carried(r *replica, c net.Conn) (bulk net.Conn) {
	s.Helper()
	wait.Eventually(s.TB, patience, "the data connection", func() error {
		if bulk = s.bulk(r); bulk.RemoteAddr().String() == c.RemoteAddr().String() {
			return errors.New("all is in the first connection")
		}
		return nil
	})
	return bulk
}

// cutOff fails the test unless a connection is cut.
func (s *site) cutOff(c net.Conn) {
	s.Helper()
	_ = c.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.Copy(io.Discard, c); !errors.Is(err, carrier.ErrCut) {
		s.Errorf("a connection reads %v", err)
	}
}

// TestConnectionsThatCanCarryMuchAreOverTheDataConnection has one begin for the first of them, and cuts it alone.
func TestConnectionsThatCanCarryMuchAreOverTheDataConnection(t *testing.T) {
	s := newSite(t)
	r := s.serve("one", 100, nil)
	b := s.balance(func(int) string { return r.address })
	a, _ := s.start(s.config(b.address, "a"))
	s.up(a, 1)
	small := s.eventually(r)
	if n := b.count(); n != 1 {
		t.Errorf("there are %d connections before the first that can carry much", n)
	}
	for number := 1; number < 3; number++ {
		first, second := s.carried(r, small), s.bulk(r)
		if second.RemoteAddr().String() != first.RemoteAddr().String() || b.count() != number+1 {
			t.Errorf("there were %d connections of the agent", b.count())
		}
		s.echoes(first)
		s.echoes(s.eventually(r))
		b.cut(number)
		s.cutOff(first)
		s.cutOff(second)
		s.echoes(small)
	}
	bulk := s.carried(r, small)
	b.cut(0)
	s.cutOff(small)
	s.cutOff(bulk)
	s.up(a, 2)
	s.carried(r, s.eventually(r))
	if e, _ := s.registry.Get(t.Context(), prod); e.Epoch != 2 {
		t.Errorf("a data connection is counted as a session: %+v", e)
	}
}

func TestARevokedTokenEndsTheDataConnection(t *testing.T) {
	s := newSite(t)
	r := s.serve("one", 100, nil)
	a, _ := s.start(s.config(r.address, "a"))
	s.up(a, 1)
	bulk := s.carried(r, s.eventually(r))
	s.revoke("1")
	s.cutOff(bulk)
	s.becomes(a, "down", func(st link.State) bool { return st.Kind == link.Down })
}

// TestAFormerAgentKeepsItsDataConnection has a newer agent, and ends the former one.
func TestAFormerAgentKeepsItsDataConnection(t *testing.T) {
	s := newSite(t)
	r := s.serve("one", 100, nil)
	cfg := s.config(r.address, "a")
	cfg.Linger = patience
	a, stop := s.start(cfg)
	s.up(a, 1)
	small := s.eventually(r)
	bulk := s.carried(r, small)
	_ = small.Close()
	b, _ := s.start(s.config(r.address, "b"))
	s.up(b, 2)
	s.carried(r, s.eventually(r))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		stop()
	}()
	select {
	case <-ended:
		t.Fatal("the agent has ended before its connection")
	case <-time.After(3 * time.Second):
	}
	s.echoes(bulk)
	_ = bulk.Close()
	<-ended
}

// TestADataConnectionFindsTheReplicaOfItsSession has a load balancer, which sends most connections to a replica that
// does not have the session.
func TestADataConnectionFindsTheReplicaOfItsSession(t *testing.T) {
	s := newSite(t)
	one, two := s.serve("one", 100, nil), s.serve("two", 100, nil)
	b := s.balance(func(n int) string { return map[bool]string{true: one.address, false: two.address}[n == 0 || n == 3] })
	a, _ := s.start(s.config(b.address, "a"))
	s.up(a, 1)
	s.carried(one, s.eventually(one))
	if n := b.count(); n != 4 {
		t.Errorf("there were %d connections", n)
	}
}

// TestWithoutADataConnectionAllIsInOneSession has a load balancer that never sends it to the replica of the session.
func TestWithoutADataConnectionAllIsInOneSession(t *testing.T) {
	s := newSite(t)
	one, two := s.serve("one", 100, nil), s.serve("two", 100, nil)
	b := s.balance(func(n int) string { return map[bool]string{true: one.address, false: two.address}[n == 0] })
	a, _ := s.start(s.config(b.address, "a"))
	s.up(a, 1)
	small := s.eventually(one)
	wait.Eventually(t, patience, "the end of the attempts", func() error {
		if bulk := s.bulk(one); bulk.RemoteAddr().String() != small.RemoteAddr().String() {
			t.Error("there is a data connection")
		}
		if !s.log.Says("an agent has no data connection") {
			return errors.New("the log does not state it")
		}
		return nil
	})
	if n := b.count(); n != 9 {
		t.Errorf("there were %d attempts, not 8", n-1)
	}
	s.echoes(small)
}

// TestHandshakesOfAgentsAreBeforeDataConnections has agents wait for their turns.
func TestHandshakesOfAgentsAreBeforeDataConnections(t *testing.T) {
	s := newSite(t)
	r := s.serve("one", 100, func(c *server.Config) { c.Handshakes = 1 })
	b := s.balance(func(int) string { return r.address })
	a, _ := s.start(s.config(b.address, "a"))
	s.up(a, 1)
	small := s.eventually(r)
	release := r.Wait(600)
	if bulk := s.bulk(r); bulk.RemoteAddr().String() != small.RemoteAddr().String() || b.count() != 1 {
		t.Errorf("there were %d connections", b.count())
	}
	release()
	s.carried(r, small)
}

// raw is an agent that answers nothing by itself.
func (s *site) raw(r *replica, change func(*linkv1.Hello)) (*carrier.Session, *linkv1.Answer, error) {
	s.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.authority.Bundle())
	conn, err := tls.Dial("tcp", r.address, link.Settings().Secure(&tls.Config{RootCAs: roots, ServerName: "127.0.0.1"}))
	if err != nil {
		s.Fatal(err)
	}
	hello := &linkv1.Hello{Version: admission.Version, Token: "s3cret-prod", ClusterUid: "uid-1", Instance: "a"}
	change(hello)
	answer := &linkv1.Answer{}
	session, err := link.Settings().Connect(s.Context(), conn, hello, answer, func() error {
		if answer.GetRefused() != nil {
			return &link.RefusedError{Refused: answer.GetRefused()}
		}
		return nil
	})
	if session != nil {
		s.Cleanup(func() { session.Close(nil) })
	}
	return session, answer, err
}

// TestAnAgentOfAnEarlierReleaseHasOneConnection has one that does not know of data connections.
func TestAnAgentOfAnEarlierReleaseHasOneConnection(t *testing.T) {
	s := newSite(t)
	r := s.serve("one", 100, nil)
	session, _, err := s.raw(r, func(*linkv1.Hello) {})
	if err != nil {
		t.Fatal(err)
	}
	s.session(r)
	go func() {
		for in := range session.Requests(t.Context()) {
			if in.Request.(*linkv1.Open).GetService() == nil {
				t.Errorf("the server requests %v", in.Request)
			}
			go echo(t.Context(), in, nil)
		}
	}()
	s.echoes(s.bulk(r))
}

// TestADataConnectionIsOfItsSessionOnly shows the server each part of a Hello with a wrong value.
func TestADataConnectionIsOfItsSessionOnly(t *testing.T) {
	s := newSite(t)
	r := s.serve("one", 100, nil)
	s.issue("s3cret-stage", registry.Token{ID: "2", Cluster: stage})
	s.issue("s3cret-other", registry.Token{ID: "3", Cluster: prod})
	session, _, err := s.raw(r, func(h *linkv1.Hello) { h.OpensDataConnection = true })
	if err != nil {
		t.Fatal(err)
	}
	s.session(r)
	s.bulkInBackground(r)
	var requested *linkv1.DataConnection
	for in := range session.Requests(t.Context()) {
		if requested = in.Request.(*linkv1.Open).GetDataConnection(); requested != nil {
			break
		}
	}
	if requested.GetEpoch() != 1 || len(requested.GetSecret()) < 26 {
		t.Fatalf("requested is %v", requested)
	}
	hello := func(change func(*linkv1.Hello)) func(*linkv1.Hello) {
		return func(h *linkv1.Hello) {
			h.DataConnection = proto.Clone(requested).(*linkv1.DataConnection)
			change(h)
		}
	}
	refused := func(name, want string, change func(*linkv1.Hello)) {
		t.Helper()
		if _, _, err := s.raw(r, hello(change)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("with %s: %v", name, err)
		}
	}
	const elsewhere = "not at this replica"
	refused("another secret", elsewhere, func(h *linkv1.Hello) { h.DataConnection.Secret = strings.Repeat("A", 26) })
	refused("no secret", elsewhere, func(h *linkv1.Hello) { h.DataConnection.Secret = "" })
	refused("an earlier epoch", elsewhere, func(h *linkv1.Hello) { h.DataConnection.Epoch = 0 })
	refused("a later epoch", elsewhere, func(h *linkv1.Hello) { h.DataConnection.Epoch = 2 })
	refused("another instance", elsewhere, func(h *linkv1.Hello) { h.Instance = "b" })
	refused("the token of another cluster", elsewhere, func(h *linkv1.Hello) { h.Token, h.ClusterUid = "s3cret-stage", "uid-2" })
	refused("another token of the cluster", elsewhere, func(h *linkv1.Hello) { h.Token = "s3cret-other" })
	refused("an unknown token", "not known", func(h *linkv1.Hello) { h.Token = "s3cret-none" })
	refused("another version", "version", func(h *linkv1.Hello) { h.Version = 0 })
	second, answer, err := s.raw(r, hello(func(*linkv1.Hello) {}))
	if err != nil || answer.GetWelcome().GetEpoch() != 1 {
		t.Fatalf("with none: %v, %v", answer, err)
	}
	refused("a secret that was used", elsewhere, func(*linkv1.Hello) {})
	refused("no secret after that", elsewhere, func(h *linkv1.Hello) { h.DataConnection.Secret = "" })
	if e, _ := s.registry.Get(t.Context(), prod); e.Epoch != 1 || !e.Live(time.Now()) {
		t.Errorf("the session is now %+v", e)
	}
	session.Close(nil)
	select {
	case <-second.Done():
	case <-time.After(patience):
		t.Error("the data connection continues after its session")
	}
}

// found calls a function after each look-up of a token.
type found struct {
	registry.Tokens
	do func()
}

// Find implements registry.Tokens.
func (f found) Find(ctx context.Context, value string) (registry.Token, bool, error) {
	defer f.do()
	return f.Tokens.Find(ctx, value)
}

// TestADataConnectionThatBreaksDoesNotEndItsSession closes it before the agent is answered.
func TestADataConnectionThatBreaksDoesNotEndItsSession(t *testing.T) {
	s := newSite(t)
	var b *balancer
	r := s.serve("one", 100, func(c *server.Config) {
		c.Tokens = found{s.tokens, func() {
			if n := b.count(); n > 1 {
				b.cut(n - 1)
				time.Sleep(time.Second) // the server writes to it after that
			}
		}}
	})
	b = s.balance(func(int) string { return r.address })
	a, _ := s.start(s.config(b.address, "a"))
	s.up(a, 1)
	small := s.eventually(r)
	wait.Eventually(t, patience, "the end of the data connection", func() error {
		s.bulkInBackground(r)
		if !s.log.Says("an agent has no session") {
			return errors.New("the log does not state it")
		}
		return nil
	})
	if e, _ := s.registry.Get(t.Context(), prod); e.Epoch != 1 || !e.Live(time.Now()) {
		t.Errorf("the session is now %+v", e)
	}
	s.echoes(small)
}

// bulkInBackground opens a connection that can carry much, and does not wait for it.
func (s *site) bulkInBackground(r *replica) {
	go func() {
		ctx, cancel := context.WithTimeout(s.Context(), patience)
		defer cancel()
		if c, err := r.Open(ctx, prod, &linkv1.Open{Bulk: true}); err == nil {
			_ = c.Close()
		}
	}()
}

// TestTheMetricsShowTheDataConnection opens a stream in each of the two connections of a session, and cuts the second one.
func TestTheMetricsShowTheDataConnection(t *testing.T) {
	s := newSite(t)
	r := s.serve("one", 100, nil)
	in := prometheus.NewRegistry()
	r.Register(in)
	b := s.balance(func(int) string { return r.address })
	a, _ := s.start(s.config(b.address, "a"))
	s.up(a, 1)
	shows := func(agents, data, inSession, inData int) {
		t.Helper()
		want := fmt.Sprintf("agents %d, data_connections %d, streams data %d, streams session %d", agents, data, inData, inSession)
		wait.Eventually(t, patience, "the metrics", func() error {
			all, err := in.Gather()
			if err != nil {
				return err
			}
			var got []string
			for _, family := range all {
				for _, m := range family.GetMetric() {
					name := strings.TrimPrefix(family.GetName(), "switchyard_link_")
					for _, label := range m.GetLabel() {
						name += " " + label.GetValue()
					}
					got = append(got, fmt.Sprint(name, " ", m.GetGauge().GetValue()))
				}
			}
			if text := strings.Join(got, ", "); text != want {
				return fmt.Errorf("they are %s, not %s", text, want)
			}
			return nil
		})
	}
	shows(1, 0, 0, 0)
	c := s.eventually(r)
	shows(1, 0, 1, 0)
	s.carried(r, c)
	shows(1, 1, 1, 1)
	b.cut(1)
	shows(1, 0, 1, 0)
}
