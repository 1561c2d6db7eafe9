package door

import (
	"context"
	"net/http"
	"os"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"switchyard.dev/eventbus/callers"
)

// Listener identifies the callers of connections.
type Listener interface {
	// Identify records that the caller at a remote address is identified.
	Identify(remote string)
	// Hang closes the connection from a remote address, and reports whether there is one.
	Hang(remote string) bool
}

// Entrance is a Door with the listener that callers come through.
type Entrance struct {
	Door *Door
	// At returns that listener; nil while there is none.
	At func() Listener
}

// NamespaceHeader names, over HTTP and in the metadata of gRPC, the namespace that an
// answer is narrowed to; it is absent when the answer is whole.
const NamespaceHeader = "Switchyard-Namespace"

// enter returns a context with the caller. The error is the reason for a rejection. The address is
// that of the connection: headers with client addresses can be forged and are ignored.
func (e Entrance) enter(ctx context.Context, address, authorization string, narrowed bool) (context.Context, error) {
	who, why := e.Door.identify(ctx, address, authorization)
	ctx = callers.With(ctx, who)
	if who.Kind == callers.Stranger && e.Door != nil {
		return e.Door.anonymous(ctx, address, authorization, why, narrowed)
	}
	if who.Kind != callers.Stranger && e.At != nil {
		if l := e.At(); l != nil {
			l.Identify(address)
		}
	}
	return ctx, nil
}

// Hang closes the connection from the address of a client that does not read its response.
func (e Entrance) Hang(address string) {
	if e.At == nil {
		return
	}
	if l := e.At(); l != nil {
		l.Hang(address)
	}
}

// rpc admits a gRPC call, or returns the reason for a rejection. Probes are admitted without a
// caller.
func (e Entrance) rpc(ctx context.Context, method string, narrowed []string) (context.Context, error) {
	address, authorization := "", ""
	if from, ok := peer.FromContext(ctx); ok {
		address = from.Addr.String()
	}
	if values := metadata.ValueFromIncomingContext(ctx, "authorization"); len(values) == 1 {
		authorization = values[0]
	}
	if strings.HasPrefix(method, "/grpc.health.v1.Health/") {
		return callers.With(ctx, callers.At(address)), nil
	}
	ctx, err := e.enter(ctx, address, authorization, slices.Contains(narrowed, method))
	if err != nil {
		return nil, err
	}
	if namespace, ok := Scope(ctx); ok {
		return ctx, grpc.SetHeader(ctx, metadata.Pairs(NamespaceHeader, namespace))
	}
	return ctx, nil
}

// Options returns interceptors that identify the caller of each call and enforce the restrictions
// of anonymous callers. narrowed are the full names of the methods with responses that the server
// restricts to Scope; callers confined to their namespaces can call only these.
func (e Entrance) Options(narrowed ...string) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			ctx, err := e.rpc(ctx, info.FullMethod, narrowed)
			if err != nil {
				return nil, err
			}
			return handle(ctx, req)
		}),
		grpc.ChainStreamInterceptor(func(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
			ctx, err := e.rpc(s.Context(), info.FullMethod, narrowed)
			if err != nil {
				return err
			}
			ctx, end := e.Door.held(ctx)
			defer end(nil)
			err = handle(srv, &stream{s, ctx})
			if moved, ok := status.FromError(context.Cause(ctx)); ok && moved.Code() != codes.OK {
				return moved.Err()
			}
			return err
		}),
	}
}

// HTTP returns a handler that identifies the caller of each request and enforces the restrictions
// of anonymous callers. narrowed are the paths with responses that next restricts to Scope; callers
// confined to their namespaces can request only these.
func (e Entrance) HTTP(next http.Handler, narrowed ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" || r.URL.Path == "/readyz" {
			next.ServeHTTP(w, r.WithContext(callers.With(r.Context(), callers.At(r.RemoteAddr))))
			return
		}
		ctx, err := e.enter(r.Context(), r.RemoteAddr, r.Header.Get("Authorization"), slices.Contains(narrowed, r.URL.Path))
		if err != nil {
			TurnAway(w, err)
			return
		}
		if namespace, ok := Scope(ctx); ok {
			w.Header().Set(NamespaceHeader, namespace)
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// TurnAway answers a request over HTTP that is refused, by an error of this package.
func TurnAway(w http.ResponseWriter, err error) {
	refused := status.Convert(err)
	if refused.Code() == codes.Unavailable {
		w.Header().Set("Retry-After", "1")
		http.Error(w, refused.Message(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("WWW-Authenticate", "Bearer")
	http.Error(w, refused.Message(), http.StatusUnauthorized)
}

// Interceptors have a gRPC server change the context of each call.
func Interceptors(change func(context.Context) context.Context) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			return handle(change(ctx), req)
		}),
		grpc.ChainStreamInterceptor(func(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
			return handle(srv, &stream{s, change(s.Context())})
		}),
	}
}

// stream is a stream with another context.
type stream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (s *stream) Context() context.Context { return s.ctx }

// TokenFile is where the chart mounts the token of the operator's programs, made for
// Audience.
const TokenFile = "/var/run/secrets/routeserver/token"

// Show has a client show the token in a file with each call. The file is read each time,
// since the kubelet replaces it; while it cannot be read nothing is shown, and the
// client is served as a stranger. Without a file name nothing is ever shown.
func Show(file string) grpc.DialOption {
	if file == "" {
		return grpc.EmptyDialOption{}
	}
	return grpc.WithPerRPCCredentials(shown(file))
}

type shown string

var _ credentials.PerRPCCredentials = shown("")

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (file shown) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	token, err := os.ReadFile(string(file))
	if err != nil || len(token) == 0 {
		return nil, nil //nolint:nilerr // a stranger is served too
	}
	return map[string]string{"authorization": "Bearer " + strings.TrimSpace(string(token))}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (shown) RequireTransportSecurity() bool { return false }
