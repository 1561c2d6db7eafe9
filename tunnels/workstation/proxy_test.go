package workstation_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"switchyard.dev/eventbus/trust"
	"switchyard.dev/eventbus/trust/trusttest"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tools/wait"
	"switchyard.dev/tunnels/carrier"
	"switchyard.dev/tunnels/relay"
	"switchyard.dev/tunnels/workstation"
	"switchyard.dev/tunnels/workstation/reconnect"
)

const proxyName = "tunnel-proxy.signadot.svc"

// proxy is a proxy's side of sessions: it accepts a token, opens all declared tunnels, and
// connects to the addresses of its names.
type proxy struct {
	*testing.T
	authority *trusttest.Authority
	address   string
	names     map[string]string

	mu       sync.Mutex
	token    string // that is believed
	shown    []string
	refuse   *tunnelv1.Refused // every Hello
	renews   bool              // what its welcome states
	sessions []*session
}

type session struct {
	*carrier.Session
	hello    *tunnelv1.Hello
	declared chan *tunnelv1.Declare
}

// newProxy begins one.
func newProxy(t *testing.T, names map[string]string) *proxy {
	p := &proxy{T: t, authority: trusttest.New(t, "switchyard"), token: "good", names: names}
	p.address = p.listen("127.0.0.1:0", p.authority)
	return p
}

// listen listens on an address, with a certificate of an authority.
func (p *proxy) listen(address string, a *trusttest.Authority) string {
	p.Helper()
	leaf := a.Leaf(p, proxyName)
	pair, err := tls.X509KeyPair(leaf.Cert, leaf.Key)
	if err != nil {
		p.Fatal(err)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() {
		l.Close()
		p.kill()
	})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(tls.Server(c, &tls.Config{Certificates: []tls.Certificate{pair}}))
		}
	}()
	return l.Addr().String()
}

func (p *proxy) greet(_ context.Context, h *tunnelv1.Hello) (*tunnelv1.Welcome, *tunnelv1.Refused) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shown = append(p.shown, h.GetToken())
	if p.refuse != nil {
		return nil, p.refuse
	}
	if h.GetToken() != p.token {
		return nil, &tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_UNAUTHENTICATED, Message: "the token is not known"}
	}
	return &tunnelv1.Welcome{User: "alice", Proxy: "tunnel-proxy-0", OperatorVersion: "test", Renews: p.renews}, nil
}

func (p *proxy) serve(c net.Conn) {
	s, hello, err := carrier.Serve(context.Background(), c, p.greet)
	if err != nil {
		return
	}
	one := &session{s, hello, make(chan *tunnelv1.Declare, 100)}
	p.mu.Lock()
	p.sessions = append(p.sessions, one)
	p.mu.Unlock()
	go func() {
		for {
			m, err := s.Receive(context.Background())
			if err != nil {
				return
			}
			d := m.GetDeclare()
			one.declared <- d
			answer := &tunnelv1.Declared{Revision: d.GetRevision()}
			for _, t := range d.GetTunnels() {
				answer.Tunnels = append(answer.Tunnels, &tunnelv1.TunnelState{Namespace: t.GetNamespace(), Name: t.GetName(), Open: true})
			}
			_ = s.Send(&tunnelv1.Control{Is: &tunnelv1.Control_Declared{Declared: answer}})
		}
	}()
	for {
		in, err := s.Accept(context.Background())
		if err != nil {
			return
		}
		go p.reach(in)
	}
}

// reach connects to what a workstation asks for.
func (p *proxy) reach(in *carrier.Incoming) {
	at, ok := p.names[in.Open.GetAddress().GetHost()]
	if !ok {
		in.Refuse(&tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_NOT_FOUND, Message: "there is no such name"})
		return
	}
	there, err := net.Dial("tcp", at)
	if err != nil {
		in.Refuse(&tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_UNREACHABLE, Message: err.Error()})
		return
	}
	c, err := in.Accept()
	if err != nil {
		there.Close()
		return
	}
	relay.Pipe(relay.Of(c), relay.Of(there))
}

// kill ends all sessions without a word.
func (p *proxy) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.sessions {
		s.Close(nil)
	}
}

// nth waits for a session, counted from 1.
func (p *proxy) nth(n int) *session {
	p.Helper()
	var found *session
	wait.Holds(p, "a session", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.sessions) >= n {
			found = p.sessions[n-1]
		}
		return found != nil
	})
	return found
}

// connects asks a workstation for a connection to a port of a workload, as the proxy does.
func (s *session) connects(namespace, name string, port int32) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return s.Open(ctx, &tunnelv1.Open{To: &tunnelv1.Open_Inbound{Inbound: &tunnelv1.Inbound{Namespace: namespace, Name: name, BaselinePort: port, From: "10.0.0.1:1"}}})
}

// config returns what a workstation needs to reach a proxy.
func (p *proxy) config() workstation.Config {
	roots := trust.NewRoots("a test")
	if err := roots.Set(p.authority.Bundle()); err != nil {
		p.Fatal(err)
	}
	return workstation.Config{Road: workstation.Address(p.address), Name: proxyName, Roots: roots,
		Token: func(context.Context, bool) (string, error) { return "good", nil }, Labels: map[string]string{"user": "alice"}}
}

// connected runs a workstation, and returns it once it has a session.
func connected(t *testing.T, cfg workstation.Config) *workstation.Workstation {
	t.Helper()
	w, err := workstation.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run ended with %v", err)
		}
	})
	up(t, w)
	return w
}

func up(t *testing.T, w *workstation.Workstation) {
	t.Helper()
	wait.Holds(t, "the workstation is connected", func() bool { s, _ := w.Status(); return s.Connected })
}

// wanted is a Wanted that a test changes.
type wanted chan []workstation.Workload

// Watch implements workstation.Wanted.
func (w wanted) Watch(ctx context.Context, tell func([]workstation.Workload)) error {
	for {
		select {
		case list := <-w:
			if list == nil {
				return errors.New("lost sight")
			}
			tell(list)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// follows has a workstation follow what a test wants.
func follows(t *testing.T, w *workstation.Workstation) wanted {
	t.Helper()
	list := make(wanted)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { w.Follow(ctx, list); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	return list
}

// cart is an external workload with port 80 mapped to an address.
func cart(local string) workstation.Workload {
	return workstation.Workload{Tunnel: reconnect.Tunnel{Namespace: "shop", Name: "mine-cart"}, Name: "cart", Sandbox: "mine",
		RoutingKey: "mine", UID: "uid", Own: true, Locals: map[int32]string{80: local}, Connected: true}
}

// declaredNames returns the names of a declaration.
func declaredNames(d *tunnelv1.Declare) string {
	var names []string
	for _, t := range d.GetTunnels() {
		names = append(names, t.GetNamespace()+"/"+t.GetName())
	}
	return strings.Join(names, " ")
}
