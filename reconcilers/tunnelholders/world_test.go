package tunnelholders_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"switchyard.dev/eventbus/trust"
	"switchyard.dev/eventbus/trust/trusttest"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/reconcilers/tunnelholders"
	"switchyard.dev/reconcilers/tunnelholders/holders"
	"switchyard.dev/tests/background"
)

const (
	patience = 20 * time.Second
	host     = "tunnel-proxy.operators.svc"
)

var workload = holders.Workload{Namespace: "ns", Name: "w", UID: "u"}

// world is a cluster with tunnel proxies, and what asks them.
type world struct {
	t         *testing.T
	authority *trusttest.Authority
	client    client.Client
	again     publish.Again
	tunnels   *tunnelholders.Tunnels
	logged    background.Output
	takeovers chan tunnelholders.Takeover

	mu sync.Mutex
	// at maps addresses of pods to the listeners of their proxies.
	at map[string]string
}

func newWorld(t *testing.T) *world {
	w := &world{
		t: t, authority: trusttest.New(t, "ours"), client: fake.NewClientBuilder().Build(), again: make(publish.Again, 100), at: map[string]string{},
		takeovers: make(chan tunnelholders.Takeover, 10),
	}
	roots := trust.NewRoots("the Secret")
	if err := roots.Set(w.authority.Bundle()); err != nil {
		t.Fatal(err)
	}
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("the-token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	w.tunnels, err = tunnelholders.New(tunnelholders.Config{
		Client: w.client, Namespace: "operators", TokenFile: token, Roots: roots, Again: w.again, Dial: w.dial,
		Logger: slog.New(slog.NewTextHandler(&w.logged, nil)), Report: func(_ context.Context, one tunnelholders.Takeover) { w.takeovers <- one },
	})
	if err != nil {
		t.Fatal(err)
	}
	background.Run(t, w.tunnels.Run)
	return w
}

// nowhere is an address at which connections time out.
const nowhere = "nowhere"

// dial connects to the proxy of a pod's address.
func (w *world) dial(ctx context.Context, address string) (net.Conn, error) {
	ip, port, err := net.SplitHostPort(address)
	if err != nil || port != "7780" {
		return nil, errors.New("asked at " + address)
	}
	w.mu.Lock()
	to := w.at[ip]
	w.mu.Unlock()
	if to == nowhere {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", to)
}

// proxy is a tunnel proxy that reports the tunnels given by the test.
type proxy struct {
	tunnelv1.UnimplementedProxyControlServer
	w    *world
	pod  *corev1.Pod
	stop func()

	mu      sync.Mutex
	tunnels []*tunnelv1.Tunnel
	silent  bool
	changed chan struct{}
	taken   []*tunnelv1.Taken
	held    []*tunnelv1.Held
	streams int
	shown   []string
	hangsUp bool
	// ended is how many streams were given up by who asked.
	ended int
}

// proxy runs one in a pod. certified is the certificate that it shows; nil for the right one.
func (w *world) proxy(name, ip string, certified *trusttest.Pair, held ...*tunnelv1.Tunnel) *proxy {
	w.t.Helper()
	p := &proxy{w: w, tunnels: held, changed: make(chan struct{})}
	p.serve(certified, ip)
	p.runs(name, "operators", ip, map[string]string{"app": "tunnel-proxy"})
	return p
}

// runs makes the pod that it runs in.
func (p *proxy) runs(name, namespace, ip string, labels map[string]string) {
	w := p.w
	w.t.Helper()
	p.pod = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name), Labels: labels},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: ip}}},
	}
	if err := w.client.Create(w.t.Context(), p.pod); err != nil {
		w.t.Fatal(err)
	}
	w.tunnels.Wake()
}

// serve listens for an address of a pod.
func (p *proxy) serve(certified *trusttest.Pair, ip string) {
	p.w.t.Helper()
	if certified == nil {
		leaf := p.w.authority.Leaf(p.w.t, host)
		certified = &leaf
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		p.w.t.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(trusttest.Server(p.w.t, *certified))))
	tunnelv1.RegisterProxyControlServer(server, p)
	go func() { _ = server.Serve(l) }()
	p.stop = server.Stop
	p.w.t.Cleanup(server.Stop)
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.w.at[ip] = l.Addr().String()
}

// Tunnels implements ProxyControlServer.
func (p *proxy) Tunnels(stream tunnelv1.ProxyControl_TunnelsServer) error {
	got, _ := metadata.FromIncomingContext(stream.Context())
	p.mu.Lock()
	p.streams++
	p.shown = append(p.shown, got.Get("authorization")...)
	p.mu.Unlock()
	go func() {
		for {
			m, err := stream.Recv()
			if err != nil {
				return
			}
			p.mu.Lock()
			p.taken, p.held = m.GetTaken(), m.GetHeld()
			p.mu.Unlock()
		}
	}()
	for {
		p.mu.Lock()
		tunnels, silent, changed, hangsUp := slices.Clone(p.tunnels), p.silent, p.changed, p.hangsUp
		p.hangsUp = false
		p.mu.Unlock()
		if hangsUp {
			return io.ErrUnexpectedEOF
		}
		if !silent {
			if err := stream.Send(&tunnelv1.TunnelsResponse{Tunnels: tunnels}); err != nil {
				return err
			}
		}
		select {
		case <-changed:
		case <-time.After(time.Second):
		case <-stream.Context().Done():
			p.mu.Lock()
			p.ended++
			p.mu.Unlock()
			return stream.Context().Err()
		}
	}
}

// now changes the report of the proxy.
func (p *proxy) now(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	close(p.changed)
	p.changed = make(chan struct{})
}

// lost returns the sessions that the proxy was notified to have lost, and their new holders.
func (p *proxy) lost() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for _, t := range p.taken {
		out = append(out, t.GetSession()+" to "+t.GetBy())
	}
	return out
}

// elsewhere returns the tunnels that were reported to the proxy as held elsewhere, and their users.
func (p *proxy) elsewhere() (out []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.held {
		out = append(out, t.GetNamespace()+"/"+t.GetName()+" "+t.GetUid()+": "+t.GetUser())
	}
	return out
}

// held is a tunnel to the workload of these tests.
func held(session string, epoch uint64, since time.Time) *tunnelv1.Tunnel {
	return &tunnelv1.Tunnel{
		Namespace: "ns", Name: "w", Uid: "u", Session: session, Epoch: epoch, Since: timestamppb.New(since), User: session + "@example.com",
		Connected: true, Ports: []*tunnelv1.ProxyPort{{Baseline: 8080, Proxy: 31000}},
	}
}

// until waits until it is known of the workload what should be; each time it is to be looked
// at again it is asked.
func (w *world) until(what string, is func(holders.Holder, bool) bool) {
	w.t.Helper()
	for deadline := time.After(patience); ; {
		h, ok := w.tunnels.Look(workload)
		if is(h, ok) {
			return
		}
		select {
		case e := <-w.again:
			if e.Object.GetNamespace() != "ns" || e.Object.GetName() != "w" {
				w.t.Fatalf("%s is to be looked at", e.Object.GetName())
			}
		case <-deadline:
			w.t.Fatalf("%s: never; it is %+v, %t", what, h, ok)
		}
	}
}

// heldAt is for until: the pod holds it, and its workstation can be reached or not.
func heldAt(pod string, connected bool) func(holders.Holder, bool) bool {
	return func(h holders.Holder, ok bool) bool { return ok && h.Pod == pod && h.Connected() == connected }
}

// drained receives a pending notification, and reports whether there was none. until can return
// before the notification of the state that it waits for is sent.
func (w *world) drained() bool {
	select {
	case <-w.again:
		return false
	default:
		return true
	}
}

// eventually polls until a state without a notification is reached.
func (w *world) eventually(what string, is func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("%s: never", what)
		}
	}
}
