package xdstest

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"switchyard.dev/routeserver/table"
	"switchyard.dev/xds/translate"
)

// patience bounds every wait of a Client.
const patience = 10 * time.Second

// Client is the sidecar's side of one stream.
type Client struct {
	t      *testing.T
	rpc    discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	cancel context.CancelFunc
}

// Dial opens a connection to an xDS server, without encryption. It ends with the
// test.
func Dial(t *testing.T, target string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(target, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// Open opens a stream on a connection, showing the token.
func Open(t *testing.T, conn *grpc.ClientConn, token string) *Client {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	rpc, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return &Client{t: t, rpc: rpc, cancel: cancel}
}

// Close ends the stream from the client's side.
func (c *Client) Close() { c.cancel() }

// Send sends a request unchanged. If the server has ended the stream, Next or Ended returns the
// reason.
func (c *Client) Send(r *discoveryv3.DeltaDiscoveryRequest) {
	c.t.Helper()
	if err := c.rpc.Send(r); err != nil && !errors.Is(err, io.EOF) {
		c.t.Fatal(err)
	}
}

// Subscribe asks for route configurations by name.
func (c *Client) Subscribe(names ...string) {
	c.t.Helper()
	c.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: translate.RouteType, ResourceNamesSubscribe: names})
}

// SubscribeParts asks for the routes of a workload in parts, except the versions in has.
func (c *Client) SubscribeParts(w table.Workload, has map[string]string) {
	c.t.Helper()
	c.Send(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: translate.PartType, ResourceNamesSubscribe: translate.PartNames(w), InitialResourceVersions: has,
	})
}

// Ack accepts a response.
func (c *Client) Ack(r *discoveryv3.DeltaDiscoveryResponse) {
	c.t.Helper()
	c.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.TypeUrl, ResponseNonce: r.Nonce})
}

// Nack refuses a response.
func (c *Client) Nack(r *discoveryv3.DeltaDiscoveryResponse, why string) {
	c.t.Helper()
	c.Send(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: r.TypeUrl, ResponseNonce: r.Nonce, ErrorDetail: &statuspb.Status{Message: why},
	})
}

// Next waits for a response.
func (c *Client) Next() *discoveryv3.DeltaDiscoveryResponse {
	c.t.Helper()
	r, err := c.Receive()
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

// Ended waits for the end of the stream and gives its error. A response first
// fails the test.
func (c *Client) Ended() error {
	c.t.Helper()
	r, err := c.Receive()
	if err == nil {
		c.t.Fatalf("got a response instead of the end of the stream: %v", r)
	}
	return err
}

// Receive waits for a response, or for the end of the stream and gives its error.
func (c *Client) Receive() (*discoveryv3.DeltaDiscoveryResponse, error) {
	c.t.Helper()
	timer := time.AfterFunc(patience, c.cancel)
	defer timer.Stop()
	return c.rpc.Recv()
}

// Served waits for a response and reports whether there was one, or the stream
// ended.
func (c *Client) Served() bool {
	_, err := c.Receive()
	return err == nil
}
