package api

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/callers/streams"
	crdv1 "switchyard.dev/protos/crd/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/identity"
)

const (
	// answerWithin bounds a unary call, and streamWithin a stream: then its caller opens another,
	// and authenticates again.
	answerWithin, streamWithin = 15 * time.Second, time.Hour
	// askAgain is the interval at which the caller of an open stream and its rights are checked
	// again.
	askAgain = 30 * time.Second
)

// caller is an authenticated client.
type caller struct {
	user  identity.User
	token string
	from  string
}

// admit authenticates the caller of a request, and counts the call in that user's share of pool;
// leave ends it. The error is a gRPC status.
func (s *server) admit(ctx context.Context, pool *callers.Pool) (c caller, leave func(), err error) {
	if !s.ready.Load() {
		return c, nil, status.Error(codes.Unavailable, "the caches of cluster objects have not synced yet: try again")
	}
	token, from, err := shown(ctx)
	if err != nil {
		return c, nil, err
	}
	user, refused := s.cfg.Access.Identify(ctx, token, from)
	if refused != nil {
		return c, nil, refusal(refused)
	}
	if leave, err = pool.Enter(callers.Caller{Kind: callers.Pod, Name: user.Name}); err != nil {
		return c, nil, status.Error(codes.ResourceExhausted, err.Error())
	}
	streams.Named(ctx)
	s.known(from, user.Name)
	return caller{user, token, from}, leave, nil
}

// stays returns nil while the token of a caller is valid for the same user. Workstations behind a
// tunnel proxy share its address; Reidentify is used so that questions of the others do not delay this
// one.
func (s *server) stays(ctx context.Context, c caller) error {
	user, refused := s.cfg.Access.Reidentify(ctx, c.token, c.from, c.user)
	switch {
	case refused.GetReason() == tunnelv1.Reason_REASON_UNAVAILABLE, refused.GetReason() == tunnelv1.Reason_REASON_EXHAUSTED:
		return nil // until the check succeeds again
	case refused != nil:
		return refusal(refused)
	case user.Key() != c.user.Key():
		return status.Error(codes.Unauthenticated, "the token is another user's now: begin again")
	}
	return nil
}

// shown returns the token that a caller presents, and the caller's address.
func shown(ctx context.Context) (token, from string, err error) {
	p, _ := peer.FromContext(ctx)
	if p == nil || p.Addr == nil {
		return "", "", status.Error(codes.Internal, "the address of the caller is unknown")
	}
	from = p.Addr.String()
	values := metadata.ValueFromIncomingContext(ctx, "authorization")
	if len(values) == 0 {
		return "", from, status.Error(codes.Unauthenticated, "show a token of the cluster, as metadata \"authorization: Bearer TOKEN\"")
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if len(values) > 1 || !strings.EqualFold(scheme, "bearer") {
		return "", from, status.Error(codes.Unauthenticated, "show one token, as metadata \"authorization: Bearer TOKEN\"")
	}
	if _, secure := p.AuthInfo.(credentials.TLSInfo); !secure && !local(p.Addr) {
		return "", from, status.Error(codes.Unauthenticated, "the token came over a connection that is not encrypted, and does not count: connect with TLS, and revoke the token if others could read it")
	}
	return token, from, nil
}

// ofCluster returns an error for a user of a control plane, with what to do instead.
func (s *server) ofCluster(c caller, instead string) error {
	if crdv1.ControlPlaneName(c.user.Name, nil) == "" {
		return nil
	}
	return status.Errorf(codes.PermissionDenied, "this is for users that the API server knows, and you are %.253q, a user of the control plane: %s", c.user.Name, instead)
}

// local reports whether an address is one of this host.
func local(a net.Addr) bool {
	at, err := netip.ParseAddrPort(a.String())
	return err == nil && callers.Loopback(at.Addr())
}

// codesOf are the codes of reasons.
var codesOf = map[tunnelv1.Reason]codes.Code{
	tunnelv1.Reason_REASON_UNAUTHENTICATED: codes.Unauthenticated,
	tunnelv1.Reason_REASON_FORBIDDEN:       codes.PermissionDenied,
	tunnelv1.Reason_REASON_NOT_FOUND:       codes.NotFound,
	tunnelv1.Reason_REASON_EXHAUSTED:       codes.ResourceExhausted,
	tunnelv1.Reason_REASON_UNAVAILABLE:     codes.Unavailable,
	tunnelv1.Reason_REASON_INVALID:         codes.InvalidArgument,
}

// refusal returns a refusal as a gRPC status.
func refusal(r *tunnelv1.Refused) error {
	code, ok := codesOf[r.GetReason()]
	if !ok {
		code = codes.FailedPrecondition
	}
	return status.Error(code, r.GetMessage())
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
