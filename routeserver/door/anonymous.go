package door

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/callers/tokens"
)

// howToShow is what strangers are told where tokens are demanded.
const howToShow = "this route server serves nobody who does not show a token (routeServer.demandTokens): " +
	"send 'authorization: Bearer TOKEN' with a token of a service account that is made for the audience " + Audience

// refusal returns why a caller is refused: one who shows no good token, where that is
// demanded. A token that could not be checked may be good, so its bearer is to try again. why
// is who's.
func (d *Door) refusal(c callers.Caller, why error) error {
	switch {
	case d == nil || !d.cfg.Demand || c.Kind != callers.Stranger:
		return nil
	case errors.Is(why, tokens.ErrUnchecked):
		return status.Errorf(codes.Unavailable, "try again: %v", why)
	case why != nil:
		return status.Errorf(codes.Unauthenticated, "%v; %s", why, howToShow)
	}
	return status.Error(codes.Unauthenticated, howToShow)
}

// admit lets a call over gRPC in, or says why not. Probes are of nobody.
func (e Entrance) admit(ctx context.Context, method string) (context.Context, error) {
	ctx, refused := e.rpc(ctx)
	if refused != nil && !strings.HasPrefix(method, "/grpc.health.v1.Health/") {
		return nil, refused
	}
	return ctx, nil
}

// turnAway answers a request over HTTP that is refused.
func turnAway(w http.ResponseWriter, refused *status.Status) {
	if refused.Code() == codes.Unavailable {
		w.Header().Set("Retry-After", "1")
		http.Error(w, refused.Message(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("WWW-Authenticate", "Bearer")
	http.Error(w, refused.Message(), http.StatusUnauthorized)
}

// Options have a gRPC server put into the context of each call who calls, and refuse
// strangers where tokens are demanded.
func (e Entrance) Options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			ctx, err := e.admit(ctx, info.FullMethod)
			if err != nil {
				return nil, err
			}
			return handle(ctx, req)
		}),
		grpc.ChainStreamInterceptor(func(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
			ctx, err := e.admit(s.Context(), info.FullMethod)
			if err != nil {
				return err
			}
			return handle(srv, &stream{s, ctx})
		}),
	}
}
