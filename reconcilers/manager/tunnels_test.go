package manager_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/trust"
	"switchyard.dev/eventbus/trust/trusttest"
	crdv1 "switchyard.dev/protos/crd/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/reconcilers/manager"
)

// tunnelProxy is a tunnel proxy that holds one tunnel, each second.
type tunnelProxy struct {
	tunnelv1.UnimplementedProxyControlServer
	tunnel atomic.Pointer[tunnelv1.Tunnel]

	mu   sync.Mutex
	at   string
	stop func()
}

// Tunnels implements ProxyControlServer.
func (p *tunnelProxy) Tunnels(stream tunnelv1.ProxyControl_TunnelsServer) error {
	for {
		if err := stream.Send(&tunnelv1.TunnelsResponse{Tunnels: []*tunnelv1.Tunnel{p.tunnel.Load()}}); err != nil {
			return err
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// serve listens, with a certificate.
func (p *tunnelProxy) serve(t *testing.T, leaf trusttest.Pair) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(trusttest.Server(t, leaf))))
	tunnelv1.RegisterProxyControlServer(server, p)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at, p.stop = l.Addr().String(), server.Stop
}

// dial reaches it at the address of its pod.
func (p *tunnelProxy) dial(ctx context.Context, address string) (net.Conn, error) {
	if address != "10.200.0.7:7780" {
		return nil, fmt.Errorf("dialled at %s", address)
	}
	p.mu.Lock()
	at := p.at
	p.mu.Unlock()
	return (&net.Dialer{}).DialContext(ctx, "tcp", at)
}

// A proxy of ours tells who is connected, and the manager leads requests there; when the proxy
// ends they fail, and when it is back they do not.
func TestRequestsAreLedToTheProxyThatHoldsTheTunnel(t *testing.T) {
	c := newCluster(t, "tunnelproxies")
	authority, p := trusttest.New(t, "ours"), &tunnelProxy{}
	leaf := authority.Leaf(t, "tunnel-proxy."+c.operator()+".svc")
	roots, token := trust.NewRoots("the Secret"), filepath.Join(t.TempDir(), "token")
	c.Must(roots.Set(authority.Bundle()))
	c.Must(os.WriteFile(token, []byte("token"), 0o600))
	c.manage(manager.Config{Trust: roots, TunnelProxyToken: token, DialProxy: p.dial})
	c.baseline(c.ns, "a", withSidecar)
	w := c.external(c.ns, "sb-a", owned)
	p.tunnel.Store(&tunnelv1.Tunnel{
		Namespace: w.Namespace, Name: w.Name, Uid: string(w.UID), Session: "s", Epoch: 1, Since: timestamppb.Now(), Connected: true,
		Ports: []*tunnelv1.ProxyPort{{Baseline: 8080, Proxy: 31000}},
	})
	p.serve(t, leaf)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.operator(), Name: "tunnel-proxy-1", Labels: map[string]string{"app": "tunnel-proxy"}}}
	pod.Spec.Containers = []corev1.Container{{Name: "proxy", Image: "none"}}
	c.Create(pod)
	status := []byte(`{"status": {"phase": "Running", "podIP": "10.200.0.7", "podIPs": [{"ip": "10.200.0.7"}]}}`)
	c.Must(c.Client.Status().Patch(c.Context(), pod, client.RawPatch(types.MergePatchType, status)))

	c.leads(c.ns, w.Name, "10.200.0.7", true)
	// What the log says is in the status afterwards.
	c.Eventually("the status says who holds the tunnel", func() error {
		c.Must(c.Client.Get(c.Context(), client.ObjectKeyFromObject(w), w))
		if s := w.Status.Tunnel; s == nil || s.Info == nil || s.Info.TunnelProxyPodName != pod.Name || s.Info.ControlPort != 7780 || !s.Health.Connected {
			return fmt.Errorf("it says %+v", s)
		}
		return nil
	})
	c.quiet() // though the proxy tells of it all the time
	p.stop()
	c.leads(c.ns, w.Name, "10.200.0.7", false)
	c.Condition(w, crdv1.ConditionTunnelConnected, "False", "TunnelDisconnected")
	p.serve(t, leaf)
	c.leads(c.ns, w.Name, "10.200.0.7", true)
	c.Remove(pod)
	c.leads(c.ns, w.Name, "", false)
}
