package streams

import (
	"context"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/callers/tokens"
)

// Bearer returns the token that a caller presents, and the caller's address. Its errors are gRPC statuses.
func Bearer(ctx context.Context) (token, from string, err error) {
	p, _ := peer.FromContext(ctx)
	if p == nil || p.Addr == nil {
		return "", "", status.Error(codes.Internal, "the address of the caller is unknown")
	}
	values := metadata.ValueFromIncomingContext(ctx, "authorization")
	if len(values) == 1 {
		if scheme, token, _ := strings.Cut(values[0], " "); strings.EqualFold(scheme, "bearer") {
			return token, p.Addr.String(), nil
		}
	}
	return "", "", status.Error(codes.Unauthenticated, "show one token, as metadata \"authorization: Bearer TOKEN\"")
}

// Charged returns the caller that a question about a token counts against: the pod that the API server issued it for,
// or else the address of the client.
func Charged(from string, signed *tokens.Claim) callers.Caller {
	if signed != nil && signed.Bound.Pod.UID != "" {
		return callers.Caller{Kind: callers.Pod, Name: signed.Bound.Pod.UID}
	}
	return callers.At(from)
}
