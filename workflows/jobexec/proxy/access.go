package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/callers/streams"
	"switchyard.dev/eventbus/trust"
	"switchyard.dev/workflows/jobexec/ticket"
)

const (
	// maxRequest bounds a request, in bytes: a Job is an object of the API server, of 1.5 MiB at most.
	maxRequest = 3 << 20
	// unaryWithin bounds a call that is no stream.
	unaryWithin = 15 * time.Second
	// maxConnections bounds the connections that have shown no ticket.
	maxConnections = 64
)

// serverOptions returns those of the gRPC server.
func (s *service) serverOptions() []grpc.ServerOption {
	config := &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: s.identity.shown, SessionTicketsDisabled: true}
	return streams.Server{
		Credentials: trust.ServerCredentials(config, false), MaxRequest: maxRequest, MaxHeaders: 16 << 10,
		Idle: 15 * time.Minute, Within: unaryWithin, Calls: s.counts,
	}.Options(grpc.ChainStreamInterceptor(s.limited))
}

// newCalls bounds the calls under way: of each user, and of all; those of the Job controller have a place of their own.
func newCalls() *callers.Pool {
	return callers.NewPool("calls", callers.Bounds{Each: 16, Pods: 48, Ours: 64, Rate: 20, Burst: 200})
}

// caller is a client that has shown a ticket.
type caller struct {
	ticket.Claims
	// controls reports whether it is the Job controller.
	controls bool
}

// admit returns the caller of a call about a job. Its ticket has to permit one of the verbs. leave ends the call.
// The error is a gRPC status.
func (s *service) admit(ctx context.Context, jobUID string, verbs ...ticket.Verb) (c caller, leave func(), err error) {
	values := metadata.ValueFromIncomingContext(ctx, "authorization")
	if len(values) != 1 {
		return c, nil, status.Error(codes.Unauthenticated, "show one ticket, as metadata \"authorization: Bearer TICKET\"")
	}
	scheme, text, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "bearer") {
		return c, nil, status.Error(codes.Unauthenticated, "show a ticket, as metadata \"authorization: Bearer TICKET\"")
	}
	if c.Claims, err = s.identity.check(text); err != nil {
		return c, nil, status.Error(codes.Unauthenticated, err.Error())
	}
	if err := c.Permits(jobUID, verbs...); err != nil {
		return c, nil, status.Error(codes.PermissionDenied, err.Error())
	}
	as := callers.Caller{Kind: callers.Pod, Name: c.User}
	if c.controls = slices.Contains(c.Verbs, ticket.Run); c.controls {
		as.Kind = callers.Ours
	}
	if leave, err = s.calls.Enter(as); err != nil {
		return c, nil, status.Error(codes.ResourceExhausted, err.Error())
	}
	streams.Named(ctx)
	if p, is := peer.FromContext(ctx); is {
		s.known(p.Addr.String(), c.User)
	}
	return c, leave, nil
}

// limitedStream is a stream that ends when a ticket would.
type limitedStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (b limitedStream) Context() context.Context { return b.ctx }

// limited ends a stream after the life of a ticket: its client shows another one and continues.
func (s *service) limited(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	ctx, cancel := context.WithTimeout(stream.Context(), s.within)
	defer cancel()
	err := handle(srv, limitedStream{stream, ctx})
	if errors.Is(err, context.DeadlineExceeded) {
		err = status.Error(codes.Unavailable, "the ticket of this stream has expired: continue with another one")
	}
	return err
}
