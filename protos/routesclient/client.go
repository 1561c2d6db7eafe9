// Package routesclient is a client of the published routes API, for message consumers, proxies
// and tools that have to know which sandbox serves which baseline for which routing key.
//
//	Client    lists rules over gRPC and watches them   client.go
//	Watched   the rules in memory, kept current        watched.go
//	HTTP      lists rules over HTTP                    http.go
//
// It works with any server of the API: that of package routeserver/server, and the published one.
package routesclient

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	pb "switchyard.dev/protos/gen/routes"
)

// Baseline identifies a workload. Kind is Deployment or ArgoRollout.
type Baseline struct {
	Kind, Namespace, Name string
}

// Filter selects rules. An empty field matches everything; several fields have to match together.
type Filter struct {
	Baseline   Baseline
	RoutingKey string
	// Sandbox is the name in SIGNADOT_SANDBOX_NAME of the sandbox's forks.
	Sandbox string
}

// request returns the filter as a message.
func (f Filter) request() *pb.WorkloadRoutingRulesRequest {
	return &pb.WorkloadRoutingRulesRequest{
		BaselineWorkload:   &pb.BaselineWorkload{Kind: f.Baseline.Kind, Namespace: f.Baseline.Namespace, Name: f.Baseline.Name},
		RoutingKey:         f.RoutingKey,
		DestinationSandbox: &pb.DestinationSandbox{Name: f.Sandbox},
	}
}

// Client calls a route server over gRPC.
type Client struct {
	conn *grpc.ClientConn
	api  pb.RoutesClient
}

// Dial returns a client of the route server at host:port; in the cluster that is
// routeserver.signadot.svc:7777. It connects in the background. Options override the defaults, which
// are a connection without TLS and keepalive pings every ten seconds.
func Dial(address string, options ...grpc.DialOption) (*Client, error) {
	conn, err := grpc.NewClient(address, append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 15 * time.Second}),
	}, options...)...)
	if err != nil {
		return nil, fmt.Errorf("routesclient: %w", err)
	}
	return &Client{conn: conn, api: pb.NewRoutesClient(conn)}, nil
}

// Close closes the connection. Watched rules are no longer updated.
func (c *Client) Close() error { return c.conn.Close() }

// Rules returns the rules that match the filter.
func (c *Client) Rules(ctx context.Context, filter Filter) ([]*pb.WorkloadRoutingRule, error) {
	got, err := c.api.GetWorkloadRoutingRules(ctx, filter.request())
	if err != nil {
		return nil, fmt.Errorf("routesclient: %w", err)
	}
	return got.GetRoutingRules(), nil
}

// Services returns the Services of the cluster, and for those of sandboxes the Service that they
// replace.
func (c *Client) Services(ctx context.Context) ([]*pb.ClusterService, error) {
	got, err := c.api.GetClusterServices(ctx, &pb.GetClusterServicesRequest{})
	if err != nil {
		return nil, fmt.Errorf("routesclient: %w", err)
	}
	return got.GetServices(), nil
}
