package explain

import (
	"context"
	"fmt"
	"slices"
	"sync"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"switchyard.dev/xds/translate"
)

// podsPerBaseline is how many pods with a sidecar each baseline has.
const podsPerBaseline = 2

// sidecar speaks the sidecar's side of delta xDS: it asks for the routes of its
// workload and acknowledges each, unless it is held.
type sidecar struct {
	pod, baseline string

	mu   sync.Mutex
	held bool
	free chan struct{} // closed when it is not held
}

// openSidecars connects the sidecars of all pods.
func (w *World) openSidecars(ctx context.Context, target string) {
	for _, name := range meshed {
		for i := range podsPerBaseline {
			c := &sidecar{pod: fmt.Sprintf("%s-%d", name, i), baseline: name, free: make(chan struct{})}
			close(c.free)
			w.sidecars = append(w.sidecars, c)
			w.running.Go(func() error { return c.run(ctx, target) })
		}
	}
}

// run acknowledges routes until ctx ends.
func (c *sidecar) run(ctx context.Context, target string) error {
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	showing := metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+c.pod+"@"+c.baseline)
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(showing, grpc.WaitForReady(true))
	if err != nil {
		return c.ended(ctx, err)
	}
	if err := stream.Send(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: translate.RouteType, ResourceNamesSubscribe: []string{translate.RouteName(workload(c.baseline))},
	}); err != nil {
		return c.ended(ctx, err)
	}
	for {
		r, err := stream.Recv()
		if err != nil {
			return c.ended(ctx, err)
		}
		c.mu.Lock()
		free := c.free
		c.mu.Unlock()
		select {
		case <-free:
		case <-ctx.Done():
			return nil
		}
		if err := stream.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.GetTypeUrl(), ResponseNonce: r.GetNonce()}); err != nil {
			return c.ended(ctx, err)
		}
	}
}

// ended says why a stream ended, unless the world did.
func (c *sidecar) ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("the sidecar of pod %s: %w", c.pod, err)
}

// hold keeps the sidecar from acknowledging; release ends that.
func (c *sidecar) hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held, c.free = true, make(chan struct{})
}

func (c *sidecar) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held {
		c.held = false
		close(c.free)
	}
}

// holds tells whether the sidecar of a pod is held.
func (w *World) holds(pod string) bool {
	return slices.ContainsFunc(w.sidecars, func(c *sidecar) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.pod == pod && c.held
	})
}
