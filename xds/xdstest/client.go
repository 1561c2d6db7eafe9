package xdstest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/memory"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/routeserver/view"
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

// Facts are stated, as the reconcilers do. The View has the table that follows from
// them when the method that stated them returns, if it is whole.
type Facts struct {
	View *view.View

	log   *memory.Log
	stop  context.CancelFunc
	ended chan error
}

// OpenFacts returns an empty log and a view that is cold until Complete. Close ends them.
func OpenFacts(ctx context.Context) (*Facts, error) {
	log := memory.New()
	if _, err := log.Begin(ctx, event.Mark{}); err != nil {
		return nil, err
	}
	v, err := view.New(view.Config{Log: log})
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(ctx)
	f := &Facts{View: v, log: log, stop: stop, ended: make(chan error, 1)}
	go func() { f.ended <- v.Run(running) }()
	return f, nil
}

// Close ends the view, and returns the error if it had failed before.
func (f *Facts) Close() error {
	f.stop()
	return <-f.ended
}

// Complete states that the log is whole and waits until the view shows it.
func (f *Facts) Complete(ctx context.Context) error {
	if err := f.state(ctx, event.Log, &factv1.Complete{Reason: "test"}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := f.View.WaitWhole(ctx)
	return err
}

// Declare states the facts of a fork.
func (f *Facts) Declare(ctx context.Context, fork Fork) error {
	observed, declared := fork.Facts()
	return errors.Join(f.state(ctx, observed.Key, observed.Data), f.state(ctx, declared.Key, declared.Data))
}

// Withdraw states that a routing key is no longer in use.
func (f *Facts) Withdraw(ctx context.Context, key string) error {
	return f.state(ctx, event.RoutingKey(key), &factv1.RoutingWithdrawn{RoutingKey: key})
}

// KeyHeaders states which custom headers carry routing keys.
func (f *Facts) KeyHeaders(ctx context.Context, names ...string) error {
	return f.state(ctx, event.KeyHeaders, &factv1.KeyHeadersDeclared{Names: names})
}

func (f *Facts) state(ctx context.Context, key event.Key, data proto.Message) error {
	newest, _, err := f.log.Newest(ctx, key)
	if err != nil {
		return err
	}
	pos, err := f.log.Append(ctx, event.Fact{Key: key, Time: time.Unix(1, 0), Data: data}, newest.Pos.Seq)
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		shown, _ := f.View.Current()
		if !shown.Whole() || shown.Pos().Seq >= pos.Seq {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the view is at %v and not at %v", shown.Pos(), pos)
		}
	}
}
