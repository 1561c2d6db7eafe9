package door

import (
	"context"
	"net/http"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"switchyard.dev/eventbus/callers"
)

// refused is what strangers are told where tokens are demanded.
const refused = "this route server serves nobody who does not show a token (routeServer.demandTokens): " +
	"send 'authorization: Bearer TOKEN' with a token of a service account that is made for the audience " + Audience

// refuses reports whether a caller is to be refused: one who shows no good token, where that
// is demanded.
func (d *Door) refuses(c callers.Caller) bool {
	return d != nil && d.cfg.Demand && c.Kind == callers.Stranger
}

// admit lets a call over gRPC in, or says why not. Probes are of nobody.
func (e Entrance) admit(ctx context.Context, method string) (context.Context, error) {
	ctx = e.rpc(ctx)
	if e.Door.refuses(callers.From(ctx)) && !strings.HasPrefix(method, "/grpc.health.v1.Health/") {
		return nil, status.Error(codes.Unauthenticated, refused)
	}
	return ctx, nil
}

// admitHTTP is admit for HTTP; it answers who is refused.
func (e Entrance) admitHTTP(ctx context.Context, w http.ResponseWriter, r *http.Request) bool {
	if !e.Door.refuses(callers.From(ctx)) || r.URL.Path == "/healthz" || r.URL.Path == "/readyz" {
		return true
	}
	w.Header().Set("WWW-Authenticate", "Bearer")
	http.Error(w, refused, http.StatusUnauthorized)
	return false
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
