package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"switchyard.dev/tests/bench/frame"
)

// patience is how long anything may take that must happen.
const patience = 2 * time.Minute

// Clients is the process of the clients, as the first one calls it: each has a connection of its
// own, as each sidecar has, and accepts every response.
type Clients struct {
	load  Load
	crowd frame.Crowd[*client]
}

// client is one stream. Its goroutine owns it, apart from the locked fields.
type client struct {
	number int
	load   Load

	mu       sync.Mutex
	versions map[string]string
	served   atomic.Int64
	again    atomic.Int64 // how often it came again
}

// Connecting configures the server address and identity of clients.
type Connecting struct {
	Load   Load
	Served Served
}

// Connect opens all streams at once, and returns the time until each has had its
// first routes.
func (c *Clients) Connect(o Connecting, took *time.Duration) error {
	c.load = o.Load
	begun := time.Now()
	secure, err := trusting(o.Served.Bundle)
	if err != nil {
		return err
	}
	options := []grpc.DialOption{grpc.WithTransportCredentials(secure),
		// Thousands of them are in this process.
		grpc.WithReadBufferSize(4 << 10), grpc.WithWriteBufferSize(4 << 10), grpc.WithSharedWriteBuffer(true)}
	err = c.crowd.Connect(o.Load.Streams, o.Served.Address, options,
		func(i int) *client { return &client{number: i, load: o.Load, versions: map[string]string{}} }, (*client).run)
	*took = time.Since(begun)
	return err
}

// Had is what all clients together had.
type Had struct {
	Responses int64
	// Again is how often one was cut off and came again.
	Again int64
}

// Await answers once every client has just the versions that it is to have.
func (c *Clients) Await(due map[string]string, had *Had) error {
	err := c.crowd.Await(10*time.Millisecond, func(one *client) bool { return one.has(due) })
	for _, one := range c.crowd.All {
		had.Responses += one.served.Load()
		had.Again += one.again.Load()
	}
	return err
}

func (c *client) has(due map[string]string) bool {
	_, names := c.load.names(c.number % c.load.Workloads)
	want := map[string]string{}
	for _, name := range names {
		if version, is := due[name]; is {
			want[name] = version
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Equal(want, c.versions)
}

// Close ends all streams.
func (c *Clients) Close(struct{}, *struct{}) error { return c.crowd.Close() }

// identity is what a client shows: its pod, and the workload that it is of.
func identity(number int, l Load) string {
	return fmt.Sprintf("%d@%d", number, number%l.Workloads)
}

func identified(token string) (pod, workload int, err error) {
	_, err = fmt.Sscanf(token, "%d@%d", &pod, &workload)
	return pod, workload, err
}

// run serves the stream, and reconnects when it is cut off, as sidecars do: when thousands
// connect at once some handshakes time out, and some clients that receive too much at once do not
// answer pings in time.
func (c *client) run(conn *grpc.ClientConn, first func()) error {
	for {
		err := c.stream(conn, first)
		if status.Code(err) != codes.Unavailable {
			return fmt.Errorf("stream %d: %w", c.number, err)
		}
		c.again.Add(1)
		time.Sleep(100 * time.Millisecond)
	}
}

func (c *client) stream(conn *grpc.ClientConn, first func()) error {
	who := identity(c.number, c.load)
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(context.Background(), "authorization", "Bearer "+who))
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true},
		discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResources_FullMethodName,
		grpc.ForceCodecV2(lazily{}), grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	c.mu.Lock()
	clear(c.versions)
	c.mu.Unlock()
	typeURL, names := c.load.names(c.number % c.load.Workloads)
	request := &discoveryv3.DeltaDiscoveryRequest{Node: &corev3.Node{Id: who}, TypeUrl: typeURL, ResourceNamesSubscribe: names}
	for {
		if err := stream.SendMsg(request); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if request.GetResponseNonce() != "" && c.served.Add(1) == 1 {
			first()
		}
		var r response
		if err := stream.RecvMsg(&r); err != nil {
			return err
		}
		c.take(r)
		request = &discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, ResponseNonce: r.nonce}
	}
}

func (c *client) take(r response) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.Copy(c.versions, r.versions)
	maps.DeleteFunc(c.versions, func(name, _ string) bool { return slices.Contains(r.removed, name) })
}
