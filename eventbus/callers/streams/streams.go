// Package streams bounds the streams of a gRPC connection before a call over it has shown a valid token: each costs
// memory from its first frame on, before any handler runs.
package streams

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// unnamed is how many streams a connection may have at once before a call has shown a valid token.
const unnamed = 8

// Bounded returns the options of a server that bounds the streams of its connections.
func Bounded() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.StatsHandler(connections{}), grpc.InTapHandle(tapped)}
}

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
	if c.streams.Add(1) > unnamed && !c.named.Load() {
		c.streams.Add(-1)
		return ctx, status.Errorf(codes.ResourceExhausted, "the connection has %d streams, as many as it may have before a call shows a valid token", unnamed)
	}
	context.AfterFunc(ctx, func() { c.streams.Add(-1) })
	return ctx, nil
}

// Named records that a call has shown a valid token: the connection of its context is not bounded any more.
func Named(ctx context.Context) {
	if c, is := ctx.Value(connectionKey{}).(*connection); is {
		c.named.Store(true)
	}
}
