package main

import (
	"fmt"
	"net"
	"strconv"
	"sync"

	"google.golang.org/grpc"

	pb "switchyard.dev/protos/gen/routes"
	"switchyard.dev/tests/bench/frame"
)

// bare is the least that a server of watches can be: every message is sent to every stream, one
// after the other.
type bare struct {
	pb.UnimplementedRoutesServer
	mu    sync.Mutex
	ops   []*pb.WorkloadRoutingRuleOp
	more  chan struct{}
	rules uint64
}

// serveBare serves until stop is called.
func serveBare() (b *bare, address string, stop func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", nil, err
	}
	b = &bare{more: make(chan struct{})}
	server := grpc.NewServer()
	pb.RegisterRoutesServer(server, b)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(listener); err != nil {
			panic(err) // nothing is measured without it
		}
	}()
	return b, listener.Addr().String(), func() { server.Stop(); <-done }, nil
}

// change sends every stream the message that the route server sends for a change.
func (b *bare) change(n int) error {
	op := bareOp(n)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rules ^= digestOf(op.GetRoute())
	b.ops = append(b.ops, op)
	close(b.more)
	b.more = make(chan struct{})
	return nil
}

// digest is that of the rules after all that was sent.
func (b *bare) digest() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rules
}

// WatchWorkloadRoutingRules implements routes.Routes.
func (b *bare) WatchWorkloadRoutingRules(_ *pb.WorkloadRoutingRulesRequest, stream grpc.ServerStreamingServer[pb.WorkloadRoutingRuleOp]) error {
	if err := stream.Send(&pb.WorkloadRoutingRuleOp{Op: pb.WatchOp_SYNCED}); err != nil {
		return err
	}
	for next := 0; ; {
		b.mu.Lock()
		ops, more := b.ops[next:], b.more
		b.mu.Unlock()
		for _, op := range ops {
			if err := stream.Send(op); err != nil {
				return err
			}
		}
		next += len(ops)
		select {
		case <-more:
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

func bareOp(change int) *pb.WorkloadRoutingRuleOp {
	sandbox := change / 2
	w := shop.Workload(sandbox % frame.Workloads)
	op := &pb.WorkloadRoutingRuleOp{Route: &pb.WorkloadRoutingRule{
		RoutingKey:         changing + strconv.Itoa(sandbox),
		Baseline:           &pb.BaselineWorkload{Kind: w.Kind, Namespace: w.Namespace, Name: w.Name},
		DestinationSandbox: &pb.DestinationSandbox{Name: fmt.Sprintf("feature-%d", sandbox)},
		Mappings: []*pb.WorkloadPortMapping{{WorkloadPort: 8080, Destinations: []*pb.Location{
			{Host: fmt.Sprintf("feature-%s-%08x.shop.svc", w.Name, sandbox%frame.Workloads), Port: 80},
		}}},
	}}
	if change%2 == 1 {
		op.Op = pb.WatchOp_REMOVE
	}
	return op
}
