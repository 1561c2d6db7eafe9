package sidecar

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"switchyard.dev/routeserver/api/receipts"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/routeserver/view"
	"switchyard.dev/xds/endpoint"
	"switchyard.dev/xds/serve"
	"switchyard.dev/xds/translate"
)

// Connected are the sidecars of an xDS server that is part of a route server, and there
// once that runs.
type Connected struct{ server atomic.Pointer[serve.Server] }

// Serve is the part that serves them, by their tokens.
func (c *Connected) Serve(l net.Listener, identify func(context.Context, string) (serve.Peer, error)) func(context.Context, *view.View) error {
	return func(ctx context.Context, v *view.View) error {
		sessions, err := serve.FromView(serve.ViewConfig{View: v, Identify: identify})
		if err != nil {
			return err
		}
		s, err := serve.New(serve.Config{Sessions: sessions})
		if err != nil {
			return err
		}
		c.server.Store(s)
		return s.Run(ctx, l)
	}
}

// Acks returns what each has acknowledged.
func (c *Connected) Acks() []serve.Ack {
	if s := c.server.Load(); s != nil {
		return s.Acks()
	}
	return nil
}

// Sidecars implements receipts.Sidecars.
func (c *Connected) Sidecars() []receipts.Sidecar { return endpoint.SidecarsOf(c.Acks()) }

// Acknowledged implements receipts.Sidecars.
func (c *Connected) Acknowledged() <-chan struct{} {
	if s := c.server.Load(); s != nil {
		return s.Acknowledged()
	}
	return nil
}

// Client implements the sidecar's side of delta xDS: it acknowledges received resources, unless it
// is paused.
type Client struct {
	rpc discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	had atomic.Int64

	mu   sync.Mutex
	held bool
	owes *discoveryv3.DeltaDiscoveryResponse
}

// Open subscribes to the routes of a workload, with a token. Run receives them.
func Open(ctx context.Context, conn *grpc.ClientConn, token string, w table.Workload) (*Client, error) {
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	rpc, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx, grpc.WaitForReady(true))
	if err != nil {
		return nil, err
	}
	return &Client{rpc: rpc}, rpc.Send(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: translate.RouteType, ResourceNamesSubscribe: []string{translate.RouteName(w)},
	})
}

// Run receives responses until the stream ends, and returns its error.
func (c *Client) Run() error {
	for {
		got, err := c.rpc.Recv()
		if err != nil {
			return fmt.Errorf("a sidecar's stream: %w", err)
		}
		c.mu.Lock()
		c.owes = got
		c.answer("")
		c.mu.Unlock()
		c.had.Add(1)
	}
}

// Had returns how many responses it has taken.
func (c *Client) Had() int64 { return c.had.Load() }

// answer acknowledges pending responses, or rejects them if refused is set, unless the client is
// paused. The caller has locked c.
func (c *Client) answer(refused string) {
	if c.owes == nil || c.held && refused == "" {
		return
	}
	answer := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: c.owes.TypeUrl, ResponseNonce: c.owes.Nonce}
	if refused != "" {
		answer.ErrorDetail = status.New(codes.Internal, refused).Proto()
	}
	c.owes = nil
	_ = c.rpc.Send(answer) // a stream that has ended is found by Run
}

// Hold delays acknowledgements until Release.
func (c *Client) Hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = true
}

// Release sends the delayed acknowledgement.
func (c *Client) Release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = false
	c.answer("")
}

// Held reports whether it keeps its acknowledgements to itself.
func (c *Client) Held() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held
}

// Refuse rejects the pending responses, and reports whether there were any.
func (c *Client) Refuse(why string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	owes := c.owes != nil
	c.answer(why)
	return owes
}
