// Package streams bounds the streams of a gRPC connection before a call over it has shown a valid token: each costs
// memory from its first frame on, before any handler runs.
package streams

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// unnamed is how many streams a connection may have at once before a call has shown a valid token.
const unnamed = 8

// Server configures a server with calls that show tokens. All fields are required.
type Server struct {
	Credentials credentials.TransportCredentials
	// MaxRequest and MaxHeaders bound a request and its headers, in bytes.
	MaxRequest int
	MaxHeaders uint32
	// Idle is how long a connection without a call lasts, and Within bounds a call that is no stream.
	Idle, Within time.Duration
	// Calls counts calls by method and status code; streams as they end.
	Calls *prometheus.CounterVec
}

// Options returns the options of the server, and more: small buffers, deadlines, and bounds on the streams of a connection.
func (s Server) Options(more ...grpc.ServerOption) []grpc.ServerOption {
	return append([]grpc.ServerOption{
		grpc.StatsHandler(connections{}), grpc.InTapHandle(tapped), grpc.Creds(s.Credentials), grpc.ConnectionTimeout(5 * time.Second),
		grpc.MaxConcurrentStreams(64), grpc.MaxHeaderListSize(s.MaxHeaders), grpc.MaxRecvMsgSize(s.MaxRequest), grpc.SharedWriteBuffer(true),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 10 * time.Second, Timeout: 5 * time.Second, MaxConnectionIdle: s.Idle}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.ChainUnaryInterceptor(s.unary), grpc.ChainStreamInterceptor(s.stream),
	}, more...)
}

func (s Server) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Within)
	defer cancel()
	answer, err := handle(ctx, request)
	s.count(info.FullMethod, err)
	return answer, err
}

func (s Server) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	err := handle(srv, stream)
	s.count(info.FullMethod, err)
	return err
}

func (s Server) count(method string, err error) {
	s.Calls.WithLabelValues(method[strings.LastIndexByte(method, '/')+1:], status.Code(err).String()).Inc()
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
