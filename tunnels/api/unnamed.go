package api

import (
	"context"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"switchyard.dev/eventbus/callers"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
)

// unnamedStreams is how many streams a connection may have at once before a call over it has shown
// a valid token. Each costs memory from its first frame on, before any handler runs.
const unnamedStreams = 8

// connection is the state of a connection, in the context of its calls.
type connection struct {
	streams atomic.Int64
	named   atomic.Bool
}

type connectionKey struct{}

// connections gives each connection its state. It implements stats.Handler.
type connections struct{}

// TagConn implements stats.Handler.
func (connections) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	return context.WithValue(ctx, connectionKey{}, &connection{})
}

// TagRPC implements stats.Handler.
func (connections) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler.
func (connections) HandleRPC(context.Context, stats.RPCStats) {}

// HandleConn implements stats.Handler.
func (connections) HandleConn(context.Context, stats.ConnStats) {}

// tapped counts the streams of a connection as they begin, and refuses those above the limit.
func tapped(ctx context.Context, _ *tap.Info) (context.Context, error) {
	c, is := ctx.Value(connectionKey{}).(*connection)
	if !is {
		return ctx, nil
	}
	if c.streams.Add(1) > unnamedStreams && !c.named.Load() {
		c.streams.Add(-1)
		return ctx, status.Errorf(codes.ResourceExhausted, "the connection has %d streams, as many as it may have before a call shows a valid token", unnamedStreams)
	}
	context.AfterFunc(ctx, func() { c.streams.Add(-1) })
	return ctx, nil
}

// named records that a call over the connection has shown a valid token.
func named(ctx context.Context) {
	if c, is := ctx.Value(connectionKey{}).(*connection); is {
		c.named.Store(true)
	}
}

// from returns the caller by its address.
func (s *server) from(ctx context.Context) callers.Caller {
	address := ""
	if p, is := peer.FromContext(ctx); is {
		address = p.Addr.String()
	}
	return callers.Behind(address, s.cfg.Proxies.Has)
}

// boundedStream counts streams that take no token, such as those of health and reflection.
func (s *server) boundedStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if strings.HasPrefix(info.FullMethod, "/"+tunnelv1.TunnelAPI_ServiceDesc.ServiceName+"/") {
		return handle(srv, stream)
	}
	leave, err := s.unnamed.Enter(s.from(stream.Context()))
	if err != nil {
		return status.Error(codes.ResourceExhausted, err.Error())
	}
	defer leave()
	return handle(srv, stream)
}
