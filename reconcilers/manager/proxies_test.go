package manager_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"switchyard.dev/routeserver/api"
	routesserver "switchyard.dev/routeserver/server"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/routeserver/view"
	"switchyard.dev/xds/endpoint"
	"switchyard.dev/xds/serve"
	"switchyard.dev/xds/translate"
	"switchyard.dev/xds/xdstest"
)

// routeServer is one that follows the log of a cluster, with xDS. Its proxies show
// tokens of the form namespace/pod@Deployment, which real ones have from the API
// server.
type routeServer struct {
	t       *testing.T
	address string
	xds     *grpc.ClientConn
	stop    func()
}

// connected are the proxies of an xDS server that is there later.
type connected struct{ server atomic.Pointer[serve.Server] }

func (c *connected) Sidecars() []api.Sidecar {
	if s := c.server.Load(); s != nil {
		return endpoint.SidecarsOf(s.Acks())
	}
	return nil
}

func (c *connected) Acknowledged() <-chan struct{} {
	if s := c.server.Load(); s != nil {
		return s.Acknowledged()
	}
	return nil
}

func identify(_ context.Context, token string) (serve.Peer, error) {
	pod, deployment, ok := strings.Cut(token, "@")
	namespace, name, also := strings.Cut(pod, "/")
	if !ok || !also {
		return serve.Peer{}, status.Error(codes.Unauthenticated, "unknown token")
	}
	w := table.Workload{Kind: "Deployment", Namespace: namespace, Name: deployment}
	return serve.Peer{Workload: w, Namespace: namespace, Pod: name, UID: "uid-" + name}, nil
}

// routes runs a route server until the test ends or it is stopped.
func (c *cluster) routes(t *testing.T) *routeServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var there connected
	main, err := routesserver.New(routesserver.Config{
		Log: c.log, GRPCAddress: "127.0.0.1:0", RESTAddress: "127.0.0.1:0", MetricsAddress: "127.0.0.1:0",
		Sidecars: &there, Logger: quiet,
		Parts: []routesserver.Part{func(ctx context.Context, v *view.View) error {
			sessions, err := serve.FromView(serve.ViewConfig{View: v, Identify: identify})
			if err != nil {
				return err
			}
			s, err := serve.New(serve.Config{Sessions: sessions})
			if err != nil {
				return err
			}
			there.server.Store(s)
			return s.Run(ctx, listener)
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- main.Run(ctx) }()
	r := &routeServer{t: t, address: main.GRPCAddress(), xds: xdstest.Dial(t, "passthrough:///"+listener.Addr().String())}
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the route server ended: %v", err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

// proxy is a sidecar that acknowledges what it gets, but while it is held.
type proxy struct {
	mu   sync.Mutex
	held bool
	owes *discoveryv3.DeltaDiscoveryResponse
	rpc  discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
}

// proxy connects the sidecar of a pod of a Deployment.
func (r *routeServer) proxy(namespace, pod, deployment string) *proxy {
	r.t.Helper()
	ctx := metadata.AppendToOutgoingContext(r.t.Context(), "authorization", "Bearer "+namespace+"/"+pod+"@"+deployment)
	rpc, err := discoveryv3.NewAggregatedDiscoveryServiceClient(r.xds).DeltaAggregatedResources(ctx, grpc.WaitForReady(true))
	if err != nil {
		r.t.Fatal(err)
	}
	name := translate.RouteName(table.Workload{Kind: "Deployment", Namespace: namespace, Name: deployment})
	if err := rpc.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: translate.RouteType, ResourceNamesSubscribe: []string{name}}); err != nil {
		r.t.Fatal(err)
	}
	p := &proxy{rpc: rpc}
	go p.receive()
	return p
}

// receive takes what comes until the stream ends.
func (p *proxy) receive() {
	for {
		got, err := p.rpc.Recv()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.owes = got
		p.settle("")
		p.mu.Unlock()
	}
}

// settle answers what was not answered yet, unless it is held. The lock is held.
func (p *proxy) settle(refused string) {
	if p.owes == nil || p.held && refused == "" {
		return
	}
	answer := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: p.owes.TypeUrl, ResponseNonce: p.owes.Nonce}
	if refused != "" {
		answer.ErrorDetail = status.New(codes.Internal, refused).Proto()
	}
	p.owes = nil
	_ = p.rpc.Send(answer) // a stream that has ended is found by receive
}

// hold makes it keep its acknowledgements to itself, until release.
func (p *proxy) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = true
}

// release gives them.
func (p *proxy) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = false
	p.settle("")
}

// refuse refuses what it owes an answer for, and says whether there was anything.
func (p *proxy) refuse(why string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	owes := p.owes != nil
	p.settle(why)
	return owes
}
